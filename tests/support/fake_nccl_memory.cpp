#include "tests/support/fake_nccl_memory.hpp"

#include "tests/support/fake_cuda.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace ddprun::test {

namespace {

struct Registered {
  ncclComm_t comm = nullptr;
  char* memory = nullptr;
  std::size_t bytes = 0;
};

struct MemoryBooks {
  std::mutex mutex;
  std::set<void*> allocated;
  std::map<std::uintptr_t, Registered> registered;  ///< by handle
  std::set<ncclComm_t> busy;                        ///< a thread is inside a call
  std::uintptr_t last_handle = 0;
  int registrations = 0;
  int without_copies = 0;
  int misuses = 0;
};

MemoryBooks& memory_books() {
  static MemoryBooks all;
  return all;
}

}  // namespace

FakeNcclCall::FakeNcclCall(ncclComm_t comm) : comm_(comm) {
  {
    const std::lock_guard lock(memory_books().mutex);
    if (!memory_books().busy.insert(comm).second) ++memory_books().misuses;
  }
  // Leaves time for concurrent calls to arrive.
  std::this_thread::yield();
}

FakeNcclCall::~FakeNcclCall() {
  const std::lock_guard lock(memory_books().mutex);
  memory_books().busy.erase(comm_);
}

ncclResult_t fake_mem_alloc(void** memory, std::size_t bytes) {
  if (fake_cuda().allocate(memory, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  const std::lock_guard lock(memory_books().mutex);
  memory_books().allocated.insert(*memory);
  return ncclSuccess;
}

ncclResult_t fake_mem_free(void* memory) {
  {
    const std::lock_guard lock(memory_books().mutex);
    const auto& registered = memory_books().registered;
    const bool is_registered = std::any_of(registered.begin(), registered.end(),
                                           [&](auto& one) { return one.second.memory == memory; });
    if (is_registered || memory_books().allocated.erase(memory) == 0) ++memory_books().misuses;
  }
  fake_cuda().free(memory);
  return ncclSuccess;
}

ncclResult_t fake_register(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  const FakeNcclCall call(comm);
  const std::lock_guard lock(memory_books().mutex);
  ++memory_books().registrations;
  *handle = reinterpret_cast<void*>(++memory_books().last_handle);
  memory_books().registered[memory_books().last_handle] = {comm, static_cast<char*>(memory), bytes};
  return ncclSuccess;
}

ncclResult_t fake_deregister(ncclComm_t comm, void* handle) {
  const FakeNcclCall call(comm);
  const std::lock_guard lock(memory_books().mutex);
  const auto found = memory_books().registered.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == memory_books().registered.end() || found->second.comm != comm) {
    ++memory_books().misuses;
    return ncclInvalidUsage;
  }
  memory_books().registered.erase(found);
  return ncclSuccess;
}

bool is_fake_registered(ncclComm_t comm, const void* memory, std::size_t bytes) {
  const auto* const first = static_cast<const char*>(memory);
  const std::lock_guard lock(memory_books().mutex);
  const auto& registered = memory_books().registered;
  return std::any_of(registered.begin(), registered.end(), [&](const auto& one) {
    const Registered& whole = one.second;
    return whole.comm == comm && whole.memory <= first &&
           first + bytes <= whole.memory + whole.bytes;
  });
}

void forget_memory(ncclComm_t comm) {
  const FakeNcclCall call(comm);
  const std::lock_guard lock(memory_books().mutex);
  std::erase_if(memory_books().registered,
                [&](const auto& one) { return one.second.comm == comm; });
}

void note_all_reduce(std::int32_t registered, int ranks) {
  const std::lock_guard lock(memory_books().mutex);
  if (registered == ranks) ++memory_books().without_copies;
  if (registered != 0 && registered != ranks) ++memory_books().misuses;
}

int fake_registered() {
  const std::lock_guard lock(memory_books().mutex);
  return static_cast<int>(memory_books().registered.size());
}

int fake_registrations() {
  const std::lock_guard lock(memory_books().mutex);
  return memory_books().registrations;
}

int fake_all_reduces_without_copies() {
  const std::lock_guard lock(memory_books().mutex);
  return memory_books().without_copies;
}

int fake_misuses() {
  const std::lock_guard lock(memory_books().mutex);
  return memory_books().misuses;
}

}  // namespace ddprun::test
