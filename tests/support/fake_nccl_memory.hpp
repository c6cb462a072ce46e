// Memory of the fake's NCCL: who has registered what with which communicator, and whether that goes
// by NCCL's rules.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::test {

/// Memory registered with communicators that have neither been revoked nor ended.
int fake_registered();
/// How often memory has ever been registered.
int fake_registrations();
/// All-reduces of memory that is registered on all ranks.
int fake_all_reduces_without_copies();
/// Memory that was freed while it was registered, handles that are none of a live communicator's,
/// calls of several threads at once that NCCL is not made for, all-reduces of memory that is
/// registered on some ranks only.
int fake_misuses();

// What fake_nccl() is made of:

ncclResult_t fake_mem_alloc(void** memory, std::size_t bytes);
ncclResult_t fake_mem_free(void* memory);
ncclResult_t fake_register(ncclComm_t comm, void* memory, std::size_t bytes, void** handle);
ncclResult_t fake_deregister(ncclComm_t comm, void* handle);
bool is_fake_registered(ncclComm_t comm, const void* memory, std::size_t bytes);
/// The communicator is about to end.
void forget_memory(ncclComm_t comm);
/// On so many of all ranks it was of registered memory.
void note_all_reduce(std::int32_t registered, int ranks);

/// A call of NCCL that looks at a communicator's list of memory, as long as it lasts.
class FakeNcclCall {
 public:
  explicit FakeNcclCall(ncclComm_t comm);
  FakeNcclCall(const FakeNcclCall&) = delete;
  FakeNcclCall& operator=(const FakeNcclCall&) = delete;
  ~FakeNcclCall();

 private:
  ncclComm_t comm_;
};

}  // namespace ddprun::test
