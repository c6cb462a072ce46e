// Calls of the Python package ddprun, which loads this library with ctypes. They are not an
// interface for other programs: the package and the library are always of one version.
//
// Functions that fail return null or 0 and set the error of the calling thread. Calls of a group
// must not overlap, except close and abort; any thread may use works.
#pragma once

#include <cstddef>
#include <cstdint>

#define DDPRUN_EXPORT __attribute__((visibility("default")))

namespace ddprun::python {

struct Group;
struct StartedWork;

/// Arguments of a collective; see the functions of ProcessGroup.
struct Call {
  std::int32_t collective = 0;      ///< a Collective, without messages
  std::int32_t type = 0;            ///< a DataType, that of both buffers
  std::int32_t reduction = 0;       ///< a ReduceOp
  std::int32_t root = 0;            ///< rank in the group; ignored by calls without a root
  void* input = nullptr;            ///< the caller's until the work has ended
  std::size_t input_elements = 0;   ///< elements of `input`
  void* output = nullptr;           ///< the caller's until the work has ended
  std::size_t output_elements = 0;  ///< elements of `output`
};

extern "C" {

/// Returns the message of the last failure of this thread, valid until its next one.
DDPRUN_EXPORT const char* ddprun_last_error() noexcept;
/// Returns 1 if that was the failure of another rank.
DDPRUN_EXPORT std::int32_t ddprun_has_peer_failed() noexcept;

/// Creates a group of `count` workers of the run, ascending `ranks` that include this one. `nodes`
/// are their nodes (GROUP_RANK). If `count` is 0, the group has all workers. All of them must call
/// it; blocks until they are connected, at most for `seconds`, which is also the limit of each
/// collective. The caller owns the result.
DDPRUN_EXPORT ddprun::python::Group* ddprun_create_group(const char* name,
                                                         const std::int32_t* ranks,
                                                         const std::int32_t* nodes,
                                                         std::int32_t count,
                                                         double seconds) noexcept;

/// Ends the group. Blocks until its works have ended, which keep their state. Later calls fail.
DDPRUN_EXPORT void ddprun_close_group(ddprun::python::Group* group) noexcept;

/// Deletes a closed group.
DDPRUN_EXPORT void ddprun_delete_group(ddprun::python::Group* group) noexcept;

/// Fails pending and later collectives of the group on all ranks. Does nothing after its end.
DDPRUN_EXPORT void ddprun_abort_group(ddprun::python::Group* group, const char* reason) noexcept;

/// Starts a collective. Fails if the arguments are invalid on this rank. The caller owns the
/// result.
DDPRUN_EXPORT ddprun::python::StartedWork* ddprun_start(ddprun::python::Group* group,
                                                        const ddprun::python::Call* call) noexcept;

/// Blocks until the work has ended, at most for `seconds`; 0: no limit. Returns 1 if it has
/// succeeded.
DDPRUN_EXPORT std::int32_t ddprun_wait(const ddprun::python::StartedWork* work,
                                       double seconds) noexcept;

/// Returns 1 if the work has ended.
DDPRUN_EXPORT std::int32_t ddprun_is_done(const ddprun::python::StartedWork* work) noexcept;

/// Deletes the handle, not the work.
DDPRUN_EXPORT void ddprun_delete_work(ddprun::python::StartedWork* work) noexcept;
}

}  // namespace ddprun::python
