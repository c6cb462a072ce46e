// The MPI library: initialised once per process, from the first group that needs it until exit.
#pragma once

#include "worker_runtime/backends/module/module.hpp"

#include <string>

namespace ddprun::mpi {

/// Initialises MPI if necessary. Throws Error if this fails, or if the numbers of MPI ranks and
/// workers differ.
void start(const module::Member& member);

/// Marks that a rank has failed: MPI will not be finalised at exit.
void give_up() noexcept;

/// Makes mpirun end all ranks with this exit status. Waits at most a second for mpirun to read
/// standard error.
[[noreturn]] void end_all(int status);

/// Returns MPI's text for an error code.
std::string describe(int error);

/// Throws Error{Errc::remote} that starts with `what` unless `error` is MPI_SUCCESS.
void check(int error, const char* what);

}  // namespace ddprun::mpi
