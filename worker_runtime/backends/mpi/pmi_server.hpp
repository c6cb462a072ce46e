// Starts MPICH's ranks without mpirun: plays the process manager to this process alone, and keeps
// what the ranks tell each other in the run's store. A socket and a thread, until MPI has ended.
#pragma once

#include "worker_runtime/backends/module/module.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <cstdint>
#include <string>
#include <thread>

namespace ddprun::mpi {

class PmiServer {
 public:
  /// From now on this process' environment names the server to MPI, which is to be started before
  /// any other thread reads the environment. Throws Error if the store cannot be reached by the
  /// deadline, which holds for what the ranks tell each other at the start, too.
  PmiServer(const module::Member& member, Deadline deadline);
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;
  /// Ends the connection.
  ~PmiServer();

  /// MPI has started: children of this process are not to be taken for its ranks.
  void hide();

 private:
  void serve();
  std::string answer(const std::string& line, bool& is_last);
  std::string mapping();

  const int size_;
  const Deadline deadline_;
  Store store_;
  int fd_ = -1;         ///< this side
  int client_fd_ = -1;  ///< MPI's
  std::int64_t barriers_ = 0;
  std::thread thread_;
};

}  // namespace ddprun::mpi
