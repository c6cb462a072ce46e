// The choice of a process group's backend from a table, and its log messages.
#include "tests/support/failure_text.hpp"
#include "worker_runtime/group/registry.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace backend_choice_test {

using namespace ddprun;
using ddprun::test::describe_failure;

namespace {

std::string available(const WorkerEnv&) {
  return {};
}
std::string no_gpu(const WorkerEnv&) {
  return "there is no GPU";
}
std::string too_many(const WorkerEnv&) {
  return "it connects at most 7 workers";
}
std::string no_module(const WorkerEnv&) {
  return "its module cannot be loaded";
}
bool never(const WorkerEnv&) {
  return false;
}
bool always(const WorkerEnv&) {
  return true;
}

using Entries = std::array<BackendEntry, 4>;

constexpr Entries kNothingUsable = {BackendEntry{"nccl", "nccl", nullptr, no_gpu, never},
                                    BackendEntry{"host", "host", nullptr, too_many},
                                    BackendEntry{"openmpi", "mpi", nullptr, no_module},
                                    BackendEntry{"mpich", "mpi", nullptr, no_module}};

/// The table with other reasons for the first three.
Entries with(std::string (*nccl)(const WorkerEnv&), bool (*expects_nccl)(const WorkerEnv&),
             std::string (*host)(const WorkerEnv&), std::string (*openmpi)(const WorkerEnv&)) {
  Entries entries = kNothingUsable;
  entries[0].unavailable_reason = nccl;
  entries[0].is_expected = expects_nccl;
  entries[1].unavailable_reason = host;
  entries[2].unavailable_reason = openmpi;
  return entries;
}

std::string failure_of(const std::string& backend) {
  return describe_failure(
      [&] { choose_backend(kNothingUsable, {}, {.backend = backend, .name = "g"}); });
}

}  // namespace

TEST_SUITE("backend choice") {
  TEST_CASE("backend choice: auto reports why its first choice is not used") {
    struct Row {
      Entries entries;
      std::string name;
      std::string note;
    };
    const std::string host_note =
        "process group \"g\": backend host cannot be used: it connects at most 7 workers; using "
        "openmpi";
    for (const auto& row : {Row{with(available, always, available, available), "nccl", ""},
                            Row{with(no_gpu, never, available, available), "host", ""},
                            Row{with(no_module, always, available, available), "host",
                                "process group \"g\": backend nccl cannot be used: its module "
                                "cannot be loaded; using "
                                "host"},
                            Row{with(no_gpu, never, too_many, available), "openmpi", host_note}}) {
      const auto [entry, note] = choose_backend(row.entries, {}, {.name = "g"});
      CHECK(entry->name == row.name);
      CHECK(note == row.note);
    }
  }

  TEST_CASE("backend choice: no note is printed for an explicitly requested backend") {
    const auto entries = with(no_module, always, available, available);
    for (const std::string name : {"host", "openmpi"}) {
      const auto [entry, note] = choose_backend(entries, {}, {.backend = name});
      CHECK(entry->name == name);
      CHECK(note.empty());
    }
  }

  TEST_CASE("backend choice: the error without a usable backend names the preferred one's reason") {
    CHECK(failure_of("auto") ==
          "usage: process group \"g\": backend host cannot be used: it connects at most 7 workers; "
          "nor can nccl, openmpi, mpich (request one by name for its reason)");
    CHECK(
        failure_of("mpi") ==
        "usage: process group \"g\": backend openmpi cannot be used: its module cannot be loaded; "
        "nor can mpich (request one by name for its reason)");
    CHECK(failure_of("nccl") ==
          "usage: process group \"g\": backend nccl cannot be used: there is no GPU");
    CHECK(failure_of("pigeon") ==
          "usage: process group \"g\": there is no backend \"pigeon\" (known: auto, nccl, host, "
          "openmpi, mpich)");
  }
}

}  // namespace backend_choice_test
