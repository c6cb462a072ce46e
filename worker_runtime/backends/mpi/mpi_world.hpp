// MPI itself: one for the process, from the first group that asks for it until the program ends.
#pragma once

#include "worker_runtime/backends/module/module.hpp"

#include <string>

namespace ddprun::mpi {

/// Starts MPI unless it runs already. Throws Error if MPI cannot be started or has another number
/// of ranks than there are workers.
void start(const module::Member& member);

/// The world is not what it was: MPI is not to be ended in order when the program ends.
void give_up() noexcept;

/// Has mpirun end all ranks with this exit status. Waits, at most a second, until mpirun has read
/// what stands in standard error.
[[noreturn]] void end_all(int status);

/// MPI's own text for an error code.
std::string describe(int error);

/// Throws Error{Errc::remote} saying `what` unless it is MPI_SUCCESS.
void check(int error, const char* what);

}  // namespace ddprun::mpi
