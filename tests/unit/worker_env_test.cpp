#include <ddprun/error.hpp>
#include <ddprun/worker_env.hpp>

#include <doctest/doctest.h>

namespace worker_env_test {

using ddprun::EnvironmentLookup;
using ddprun::Error;
using ddprun::WorkerEnv;

namespace {

EnvironmentLookup lookup_in(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string problem_with(const std::map<std::string, std::string>& variables) {
  try {
    ddprun::from_environment(lookup_in(variables));
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("worker env") {
  TEST_CASE("worker env: variables of to_environment() round-trip through from_environment()") {
    const WorkerEnv env{.rank = 5,
                        .world_size = 8,
                        .local_rank = 1,
                        .local_world_size = 4,
                        .node_rank = 1,
                        .node_count = 2,
                        .role_rank = 3,
                        .role_world_size = 6,
                        .role_name = "a role",
                        .master_addr = "::1",
                        .master_port = 65535,
                        .restart_count = 2,
                        .max_restarts = 3,
                        .run_id = "run 7",
                        .use_agent_store = true,
                        .error_file = "/tmp/an error.json",
                        .control_page_fd = 12,
                        .control_page_slot = 3,
                        .shares_gpus = true};
    CHECK(ddprun::from_environment(lookup_in(to_environment(env))) == env);
    CHECK(ddprun::from_environment(lookup_in(to_environment(WorkerEnv{}))) == WorkerEnv{});
  }

  TEST_CASE("worker env: a program started by mpirun gets the rank from mpirun's variables") {
    const auto of_openmpi =
        ddprun::from_environment(lookup_in({{"OMPI_COMM_WORLD_RANK", "5"},
                                            {"OMPI_COMM_WORLD_SIZE", "8"},
                                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
    CHECK(of_openmpi == WorkerEnv{.rank = 5,
                                  .world_size = 8,
                                  .local_rank = 1,
                                  .local_world_size = 4,
                                  .node_rank = 1,
                                  .node_count = 2,
                                  .role_rank = 5,
                                  .role_world_size = 8,
                                  .mpi_vendor = "openmpi"});
    const auto of_mpich = ddprun::from_environment(
        lookup_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "29500"}}));
    CHECK(of_mpich == WorkerEnv{.rank = 1,
                                .world_size = 2,
                                .local_rank = 1,
                                .local_world_size = 2,
                                .role_rank = 1,
                                .role_world_size = 2,
                                .master_port = 29500,
                                .mpi_vendor = "mpich"});
    // Variables of an outer run of mpirun do not count.
    CHECK(
        ddprun::from_environment(lookup_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PMI_SIZE", "4"}}))
            .mpi_vendor.empty());
    CHECK(contains(problem_with({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
                   "PMI_RANK=2 is not below PMI_SIZE=2"));
  }

  TEST_CASE("worker env: the store is at MASTER_PORT unless the agent sets another one") {
    WorkerEnv env{.master_addr = "node0", .master_port = 29500};
    CHECK(env.store() == ddprun::StoreEndpoint{.host = "node0", .port = 29500});
    env.agent_store_addr = "::1";
    env.agent_store_port = 4711;
    const auto variables = to_environment(env);
    CHECK(ddprun::from_environment(lookup_in(variables)) == env);
    CHECK(env.store() == ddprun::StoreEndpoint{.host = "::1", .port = 4711});
    // A run inside a worker of that run inherits the variables.
    auto inner = variables;
    inner["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    CHECK(ddprun::from_environment(lookup_in(inner)).store().port == 29500);
  }

  TEST_CASE("worker env: a program started alone is rank 0 of 1") {
    CHECK(ddprun::from_environment(lookup_in({})) == WorkerEnv{});
    CHECK_FALSE(ddprun::from_environment(lookup_in({})).is_launched());
  }

  TEST_CASE("worker env: the four variables of init method env:// suffice on one node") {
    const auto env = ddprun::from_environment(lookup_in(
        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}));
    CHECK(env.local_rank == 1);
    CHECK(env.local_world_size == 2);
    CHECK(env.master_addr == "node0");
    CHECK_FALSE(env.use_agent_store);
  }

  TEST_CASE("worker env: all problems are reported in one message") {
    const auto message = problem_with({{"RANK", "two"}, {"LOCAL_RANK", "-1"}, {"WORLD_SIZE", "2"}});
    CHECK(contains(message, "RANK='two' is not an integer"));
    CHECK(contains(message, "LOCAL_RANK=-1 is not within"));
    CHECK(contains(message, "MASTER_PORT is not set"));
    CHECK(contains(message, "start the program with ddprun"));
  }

  TEST_CASE("worker env: invalid numbers and ranks and ports are rejected") {
    CHECK(contains(problem_with({{"RANK", "0x"}, {"WORLD_SIZE", "1"}}), "RANK='0x'"));
    CHECK(contains(problem_with({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}),
                   "not below WORLD_SIZE"));
    CHECK(contains(problem_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65536"}}),
                   "0..65535"));
    CHECK(contains(problem_with({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}), "WORLD_SIZE"));
    CHECK(contains(problem_with({{"RANK", "0"}}), "WORLD_SIZE is not set"));
  }
}

}  // namespace worker_env_test
