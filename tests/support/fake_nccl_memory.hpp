// Memory of the fake NCCL: registrations with communicators, checked by NCCL's rules.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::test {

/// Number of registrations with communicators that were neither revoked nor ended.
int fake_registered();
/// Total number of registrations.
int fake_registrations();
/// Number of all-reduces of memory that is registered on all ranks.
int fake_all_reduces_without_copies();
/// Number of errors: memory freed while registered, handles of no live communicator, concurrent
/// calls that NCCL does not permit, all-reduces of memory that is registered on some ranks only.
int fake_misuses();

// Parts of fake_nccl():

ncclResult_t fake_mem_alloc(void** memory, std::size_t bytes);
ncclResult_t fake_mem_free(void* memory);
ncclResult_t fake_register(ncclComm_t comm, void* memory, std::size_t bytes, void** handle);
ncclResult_t fake_deregister(ncclComm_t comm, void* handle);
bool is_fake_registered(ncclComm_t comm, const void* memory, std::size_t bytes);
/// Called before the communicator ends.
void forget_memory(ncclComm_t comm);
/// Records an all-reduce of memory that is registered on this number of ranks.
void note_all_reduce(std::int32_t registered, int ranks);

/// Marks a call of NCCL that reads a communicator's list of memory, for its duration.
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
