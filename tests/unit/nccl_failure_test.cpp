// Errors of ranks with CUDA devices if one of them or NCCL fails, with the fake devices.
#include "tests/support/cuda_emulation.hpp"
#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_errors.hpp"
#include "tests/support/rank_threads.hpp"
#include "worker_runtime/backends/nccl/watch.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <ostream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace nccl_failure_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// "PeerFailed(1): ..." or "nccl: ...".
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const PeerFailed& failure) {
    return "PeerFailed(" + std::to_string(failure.rank()) + "): " + failure.what();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no failure";
}

std::string failure_of_all_reduce(ProcessGroup& group) {
  std::vector<float> values(100, 1);
  return failure_of([&] { group.all_reduce(on_device(values)).wait(); });
}

bool begins_with(const std::string& text, const std::string& beginning) {
  return text.starts_with(beginning);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Once more, from the first call on.
void check_a_new_group(int ranks) {
  run_ranks(device_ranks(ranks), [ranks](ProcessGroup& group) {
    std::vector<float> values(100, 1);
    group.all_reduce(on_device(values)).wait();
    CHECK(values[99] == static_cast<float>(ranks));
  });
}

struct ChildEnd {
  int exit_code = -1;
  std::string output;
  bool operator==(const ChildEnd&) const = default;
};

std::ostream& operator<<(std::ostream& out, const ChildEnd& end) {
  return out << "exit code " << end.exit_code << ", output: " << end.output;
}

/// Exit of a process with `fault` while it frees a communicator.
ChildEnd end_of_child_that_aborts(void (*fault)(NcclFaults& faults)) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  free_fibers();  // of the preceding suites
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    auto groups = device_ranks(2);
    run_ranks(groups, [](ProcessGroup& group) {
      std::vector<float> values(10);
      group.all_reduce(on_device(values)).wait();
    });
    fault(nccl_faults());
    groups[0].abort("asked to");
    groups.clear();
    ::_exit(0);
  }
  ::close(ends[1]);
  ChildEnd end;
  char bytes[512];
  for (ssize_t got = 0; (got = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    end.output.append(bytes, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace

TEST_SUITE("nccl failure") {
  TEST_CASE("nccl failure: the polling interval is a fiftieth of the wait within limits") {
    CHECK(nccl::pause_after(0us) == 20us);
    CHECK(nccl::pause_after(1ms) == 20us);
    CHECK(nccl::pause_after(4ms) == 80us);
    CHECK(nccl::pause_after(50ms) == 1ms);
    CHECK(nccl::pause_after(24h) == 1ms);
  }

  TEST_CASE("nccl failure: a rank that aborts is named in the errors of the other ranks") {
    const CleanDevices clean;
    std::latch have_met(3);
    run_ranks(device_ranks(3), [&](ProcessGroup& group) {
      std::vector<float> values(100, 1);
      group.all_reduce(on_device(values)).wait();
      have_met.arrive_and_wait();
      if (group.rank() == 2) return group.abort("this rank has had enough");
      const auto failure = failure_of_all_reduce(group);
      CHECK(begins_with(failure, "PeerFailed(2): "));
      CHECK(contains(failure, "this rank has had enough"));
    });
    check_a_new_group(3);
  }

  TEST_CASE("nccl failure: a hung collective fails at its deadline on all ranks") {
    const CleanDevices clean;
    GroupOptions options;
    options.collective_timeout = 10s;  // ample for the first call, which connects three ranks
    std::vector<std::string> failures(2);
    std::latch have_given_up(2);
    run_ranks(device_ranks(3, options), [&](ProcessGroup& group) {
      std::vector<float> values(100, 1);
      group.all_reduce(on_device(values)).wait();
      if (group.rank() == 2) return have_given_up.wait();
      failures[static_cast<std::size_t>(group.rank())] = failure_of_all_reduce(group);
      have_given_up.count_down();
    });
    // One rank fails first, and the error of the other may come from it.
    const bool is_first = begins_with(failures[0], "timeout: ");
    CHECK(begins_with(failures[is_first ? 0 : 1], "timeout: "));
    for (const auto& failure : failures)
      CHECK(contains(failure, "all_reduce(100 x float32, sum): not done on the device after "));
    check_a_new_group(3);
  }

  TEST_CASE("nccl failure: an abort ends a pending collective on all ranks") {
    const CleanDevices clean;
    std::latch have_met(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      std::vector<float> values(100, 1);
      group.all_reduce(on_device(values)).wait();
      have_met.arrive_and_wait();
      if (group.rank() == 0) {
        CHECK(begins_with(failure_of_all_reduce(group), "PeerFailed(1): "));
      } else {
        group.abort("asked to");
        CHECK(begins_with(failure_of_all_reduce(group), "closed: "));
      }
    });
    check_a_new_group(2);
  }

  TEST_CASE("nccl failure: an NCCL error on one rank ends the call on all ranks") {
    struct Row {
      ncclResult_t fault;
      const char* own;
    };
    const std::vector<Row> rows = {
        {ncclRemoteError, "PeerFailed(-1): all_reduce(100 x float32, sum): remote process exited"},
        {ncclSystemError, "nccl: all_reduce(100 x float32, sum): an error of the fake"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.own);
      const CleanDevices clean;
      nccl_faults().collective = row.fault;
      run_ranks(device_ranks(2), [&](ProcessGroup& group) {
        const auto failure = failure_of_all_reduce(group);
        CHECK(begins_with(failure, group.rank() == 1 ? row.own : "PeerFailed(1): "));
        CHECK(contains(failure, "the fake was asked to"));
        // Every later call fails, too.
        CHECK(failure_of_all_reduce(group) == failure);
      });
      nccl_faults().take_back();
      check_a_new_group(2);
    }
  }

  TEST_CASE("nccl failure: the rank is named although NCCL detects its death first") {
    const CleanDevices clean;
    nccl_faults().collective = ncclRemoteError;
    const int reported = fake_reported_errors();
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      if (group.rank() == 0) {
        std::vector<float> values(100, 1);
        const auto work = group.all_reduce(on_device(values));
        fake_reported_errors().wait(reported);
        return group.abort("this rank dies");
      }
      const auto failure = failure_of_all_reduce(group);
      CHECK(begins_with(failure, "PeerFailed(0): "));
      CHECK(contains(failure, "this rank dies"));
    });
  }

  TEST_CASE("nccl failure: a failure is published before NCCL has ended its kernels") {
    const CleanDevices clean;
    std::latch have_met(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      std::vector<float> values(100, 1);
      group.all_reduce(on_device(values)).wait();
      nccl_faults().hangs_in_revoke = true;
      have_met.arrive_and_wait();
      if (group.rank() == 1) return group.abort("asked to");
      CHECK(begins_with(failure_of_all_reduce(group), "PeerFailed(1): "));
      nccl_faults().take_back();
    });
  }

  TEST_CASE("nccl failure: a failure to create the unique id is reported to all ranks") {
    const CleanDevices clean;
    nccl_faults().unique_id = ncclSystemError;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      const auto failure = failure_of_all_reduce(group);
      CHECK(
          begins_with(failure, group.rank() == 0 ? "nccl: ncclGetUniqueId: " : "PeerFailed(0): "));
      CHECK(contains(failure, "NCCL_SOCKET_IFNAME"));
    });
    nccl_faults().take_back();
    check_a_new_group(2);
  }

  TEST_CASE("nccl failure: pending work is revoked if supported and otherwise aborted") {
    static auto older = fake_nccl();
    older.comm_revoke = nullptr;
    static nccl::Libraries with_older = fake_libraries();
    with_older.nccl = []() -> const nccl::NcclCalls& { return older; };
    static const auto older_table = nccl::make_device_table(with_older);
    struct Row {
      const char* name;
      const nccl::DeviceTable& table;
      ncclResult_t revoke;
      bool is_endless;
      int aborts;
    };
    const Row rows[] = {
        {"it can", fake_device_table(), ncclSuccess, false, 0},
        {"this version cannot", older_table, ncclSuccess, false, 2},
        {"it refuses", fake_device_table(), ncclInvalidUsage, false, 2},
        {"it is never done", fake_device_table(), ncclSuccess, true, 2},
    };
    for (const auto& row : rows) {
      CAPTURE(row.name);
      const CleanDevices clean;
      nccl_faults().revoke = row.revoke;
      nccl_faults().is_revoke_endless = row.is_endless;
      const int aborts = fake_aborts();
      std::latch have_met(2);
      run_ranks(device_ranks(2, {}, row.table), [&](ProcessGroup& group) {
        std::vector<float> values(100, 1);
        group.all_reduce(on_device(values)).wait();
        have_met.arrive_and_wait();
        if (group.rank() == 1) return group.abort("asked to");
        CHECK(begins_with(failure_of_all_reduce(group), "PeerFailed(1): "));
      });
      CHECK(fake_aborts() - aborts == row.aborts);
    }
    check_a_new_group(2);
  }

  TEST_CASE("nccl failure: a hung driver is reported on all ranks with the device") {
    const CleanDevices clean;
    static nccl::Libraries impatient = fake_libraries();
    impatient.driver_timeout = 1s;
    static const auto table = nccl::make_device_table(impatient);
    cuda_faults().closed = kDevice.index;
    module::Failure failure;
    CHECK(table.memory.create(table.libraries, kDevice.index, failure) == nullptr);
    CHECK(begins_with(failure.text,
                      "CUDA device 1: initialising CUDA: its driver has not answered "
                      "after "));
    CHECK(failure.code == Errc::timeout);
    run_ranks(device_ranks(2, {}, table), [](ProcessGroup& group) {
      CHECK(begins_with(failure_of_all_reduce(group), "timeout: CUDA device 1: initialising CUDA"));
    });
    cuda_faults().take_back();
    nccl_faults().hangs_in_id = true;
    run_ranks(device_ranks(2, {}, table), [](ProcessGroup& group) {
      const auto text = failure_of_all_reduce(group);
      CHECK(
          begins_with(text, group.rank() == 0 ? "timeout: ncclGetUniqueId: " : "PeerFailed(0): "));
      CHECK(contains(text, "ncclGetUniqueId: its driver has not answered after "));
    });
    nccl_faults().take_back();
    // The hung call has returned, and its results are freed there.
    CHECK(are_devices_free());
    check_a_new_group(2);
  }

  TEST_CASE("nccl failure: a process that cannot free its communicator exits") {
    const std::string expected =
        "ddprun: process group \"default\": NCCL has not let go of its communicator after 2 s; "
        "ending the process\n";
    const auto in_abort = end_of_child_that_aborts([](NcclFaults& faults) {
      faults.revoke = ncclInvalidUsage;
      faults.hangs_in_abort = true;
    });
    CHECK(in_abort == ChildEnd{1, expected});
    // An abort would free memory that the hung call still uses.
    const auto in_revoke =
        end_of_child_that_aborts([](NcclFaults& faults) { faults.hangs_in_revoke = true; });
    CHECK(in_revoke == ChildEnd{1, expected});
  }
}

}  // namespace nccl_failure_test
