// Runs a function as several ranks of a process group, one thread for each.
#pragma once

#include <ddprun/process_group.hpp>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace ddprun::test {

/// Calls `body` for each group on a thread of its own, and joins the threads. Rethrows the first
/// rank's exception. doctest's checks can be used inside.
inline void run_ranks(std::vector<ProcessGroup> groups,
                      const std::function<void(ProcessGroup&)>& body) {
  std::vector<std::exception_ptr> failures(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        // Each rank drops its own handle, as a process would.
        ProcessGroup group = std::move(groups[rank]);
        body(group);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

inline void run_ranks(int size, const std::function<void(ProcessGroup&)>& body,
                      const GroupOptions& options = {}) {
  run_ranks(ProcessGroup::create_in_process(size, options), body);
}

}  // namespace ddprun::test
