#include "worker_runtime/backends/mpi/mpi_world.hpp"

#include "rendezvous/base/own_process.hpp"
#include <ddprun/error.hpp>

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::mpi {

namespace {

std::mutex mutex;
bool is_started = false;
OwnProcess process;  ///< process that has started MPI; forked children also run its exit handlers
std::atomic<bool> is_given_up = false;

/// Time limit for mpirun to read a rank's last output.
constexpr auto kReadLimit = std::chrono::seconds(1);
constexpr int kPauseMilliseconds = 1;  // there is no event for an empty pipe

/// MPICH 4.2 loses unread output when a rank aborts.
void wait_until_output_is_read() {
  const auto deadline = Deadline::after(kReadLimit);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) continue;
    int unread = 0;
    while (::ioctl(fd, FIONREAD, &unread) == 0 && unread > 0 && !deadline.passed())
      ::poll(nullptr, 0, kPauseMilliseconds);
  }
}

/// MPI_Finalize needs all ranks, so it is only called if no rank is known to have failed. Otherwise
/// MPI_Abort makes mpirun end all ranks: after a plain exit, MPICH 4.2's mpirun sometimes returns
/// 0.
void finish(int status, void*) {
  if (!process.is_this()) return;
  if (!is_given_up) {
    MPI_Finalize();
  } else {
    std::fflush(nullptr);  // the C library does so after this handler, which does not return
    end_all(status == EXIT_SUCCESS ? EXIT_FAILURE : status);
  }
}

void initialise() {
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "starting MPI");
  is_started = true;
  ::on_exit(finish, nullptr);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(Errc::system, "this MPI was built without support for threads (it provides level " +
                                  std::to_string(provided) + ", and " +
                                  std::to_string(MPI_THREAD_MULTIPLE) + " is needed)");
  }
}

}  // namespace

void start(const module::Member& member) {
  const std::lock_guard lock(mutex);
  if (!is_started) {
    process = OwnProcess();
    initialise();
  }
  int size = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size != member.world_size) {
    throw Error(Errc::usage, "process group \"" + std::string(member.group) + "\" is of a run of " +
                                 std::to_string(member.world_size) +
                                 " ranks, but MPI was started with " + std::to_string(size) +
                                 " (start the program with mpirun)");
  }
}

void give_up() noexcept {
  is_given_up = true;
}

void end_all(int status) {
  wait_until_output_is_read();
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

std::string describe(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check(int error, const char* what) {
  if (error != MPI_SUCCESS) throw Error(Errc::remote, std::string(what) + ": " + describe(error));
}

}  // namespace ddprun::mpi
