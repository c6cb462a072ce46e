// Workers on the MPI backends, started by mpirun and by ddprun. An MPI is tested if the build has
// found it.
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace mpi_test {

using namespace ddprun::test;

namespace {

struct Mpi {
  std::string name;
  std::vector<std::string> mpirun;
};

const std::vector<Mpi>& installed() {
  static const std::vector<Mpi> all = [] {
    std::vector<Mpi> found;
    const std::string names = DDPRUN_MPI_BACKENDS;
    if (contains(names, "mpich")) found.push_back({"mpich", {"mpirun.mpich", "-n"}});
    if (contains(names, "openmpi")) {
      found.push_back(
          {"openmpi", {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"}});
    }
    return found;
  }();
  return all;
}

std::vector<std::string> started_by(const Mpi& mpi, int ranks,
                                    const std::vector<std::string>& arguments) {
  std::vector<std::string> all = mpi.mpirun;
  all.push_back(std::to_string(ranks));
  all.push_back(in_bin("random_worker"));
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

}  // namespace

TEST_SUITE("mpi") {
  TEST_CASE("mpi: calls of ranks started by mpirun match serial results") {
    for (const auto& mpi : installed()) {
      for (const int ranks : {1, 3}) {
        const auto result = run_program(started_by(mpi, ranks, {"mpi"}));
        CAPTURE(result.output);
        CHECK(result.exit_code == 0);
        CHECK(count(result.output, " over " + mpi.name + ": ok") == ranks);
      }
    }
  }

  TEST_CASE("mpi: subgroups work concurrently and different creation orders are reported") {
    for (const auto& mpi : installed()) {
      const auto result = run_program(started_by(mpi, 4, {"mpi", "groups"}));
      CAPTURE(result.output);
      CHECK(result.exit_code == 0);
      CHECK(count(result.output, " over " + mpi.name + ": ok") == 4);
      const auto refused = run_program(started_by(mpi, 3, {"mpi", "order"}));
      CAPTURE(refused.output);
      CHECK(
          contains(refused.output,
                   "new_group: rank 0 creates group \"default/0\" of ranks 0-2, but rank 1 creates "
                   "group \"default/0\" of ranks 1-2"));
    }
  }

  TEST_CASE("mpi: a call that exceeds its timeout ends the process with a message") {
    for (const auto& mpi : installed()) {
      const auto result = run_program(started_by(mpi, 2, {"mpi", "hang"}));
      CAPTURE(result.output);
      CHECK(result.exit_code != 0);
      CHECK(contains(result.output,
                     "ddprun: recv(1 x float32, rank 1, tag 0) of group \"default\" over MPI: it "
                     "had not ended after "));
    }
  }

  TEST_CASE("mpi: aborting a group ends the process with a message") {
    for (const auto& mpi : installed()) {
      const auto result = run_program(started_by(mpi, 2, {"mpi", "abort"}));
      CAPTURE(result.output);
      CHECK(result.exit_code != 0);
      // The error is the caller's own or that of the other ranks.
      CHECK(contains(result.output, "process group \"default\" was aborted"));
      CHECK(contains(result.output, ": enough"));
    }
  }

  TEST_CASE("mpi: the error for a backend of another MPI names the required mpirun") {
    for (const auto& [backend, name] : {std::pair("openmpi", "Open MPI"), {"mpich", "MPICH"}}) {
      const auto result =
          run_program({in_bin("ddprun"), "--nproc_per_node=2", in_bin("random_worker"), backend});
      CHECK(result.exit_code != 0);
      CHECK(contains(result.output,
                     "the mpirun of " + std::string(name) + " has to start the program"));
    }
  }
}

}  // namespace mpi_test
