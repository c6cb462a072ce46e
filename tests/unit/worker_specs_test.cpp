#include "launcher/agent/worker_specs.hpp"

#include <ddprun/worker_env.hpp>

#include <doctest/doctest.h>

namespace worker_specs_test {

using ddprun::AttemptFacts;
using ddprun::ConsoleForm;
using ddprun::InputKind;
using ddprun::LaunchPlan;
using ddprun::LinePrefix;
using ddprun::make_worker_specs;
using ddprun::PrefixField;
using ddprun::StdinChoice;
using ddprun::StreamTarget;
using ddprun::WorkerEnv;

namespace {

LaunchPlan plan_of_two() {
  LaunchPlan plan{.run_id = "run 7", .store_host = "127.0.0.1"};
  plan.options.role = "trainer";
  plan.workers = {{.local_rank = 0, .arguments = {"/bin/true"}},
                  {.local_rank = 1,
                   .arguments = {"/bin/false", "1"},
                   .standard_output = StreamTarget::file,
                   .standard_error = StreamTarget::tee,
                   .is_shown = false,
                   .cpus = {2, 3}}};
  plan.options.max_restarts = 4;
  return plan;
}

const AttemptFacts kFacts{
    .attempt = 2,
    .restart_count = 2,
    .placement = {.world_size = 2, .role_world_size = 2, .master_addr = "127.0.0.1"},
    .store_port = 4711,
    .control_page_fd = 9,
    .worker_folders = {"/run/attempt_2/0", "/run/attempt_2/1"}};

WorkerEnv env_of(const std::map<std::string, std::string>& environment) {
  return ddprun::from_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

}  // namespace

TEST_SUITE("worker specs") {
  TEST_CASE("worker specs: each worker gets individual ranks and arguments and CPUs") {
    const auto specs = make_worker_specs(plan_of_two(), kFacts);
    REQUIRE(specs.size() == 2);
    CHECK(specs[1].arguments == std::vector<std::string>{"/bin/false", "1"});
    CHECK(specs[1].cpus == std::vector<int>{2, 3});
    CHECK(specs[1].error_file.path() == "/run/attempt_2/1/error.json");
    CHECK(env_of(specs[1].environment) == WorkerEnv{.rank = 1,
                                                    .world_size = 2,
                                                    .local_rank = 1,
                                                    .local_world_size = 2,
                                                    .role_rank = 1,
                                                    .role_world_size = 2,
                                                    .role_name = "trainer",
                                                    .master_port = 4711,
                                                    .restart_count = 2,
                                                    .max_restarts = 4,
                                                    .run_id = "run 7",
                                                    .use_agent_store = true,
                                                    .error_file = "/run/attempt_2/1/error.json",
                                                    .control_page_fd = 9,
                                                    .control_page_slot = 1});
  }

  TEST_CASE("worker specs: ranks of several nodes continue those of the preceding nodes") {
    const auto plan = plan_of_two();
    CHECK(ddprun::single_node_placement(plan).world_size == 2);
    auto facts = kFacts;
    facts.placement = {.node_rank = 1,
                       .node_count = 3,
                       .first_rank = 4,
                       .world_size = 9,
                       .first_role_rank = 1,
                       .role_world_size = 5,
                       .master_addr = "10.0.0.1"};
    const auto specs = make_worker_specs(plan, facts);
    CHECK(specs[1].rank == 5);
    CHECK(specs[1].local_rank == 1);
    const auto env = env_of(specs[1].environment);
    CHECK(env.rank == 5);
    CHECK(env.world_size == 9);
    CHECK(env.local_world_size == 2);
    CHECK(env.node_rank == 1);
    CHECK(env.node_count == 3);
    CHECK(env.role_rank == 2);
    CHECK(env.role_world_size == 5);
    CHECK(env.master_addr == "10.0.0.1");
    CHECK(env.control_page_slot == 1);
  }

  TEST_CASE("worker specs: MASTER_PORT is the port of a store in rank 0") {
    auto facts = kFacts;
    facts.worker_store_port = 29500;
    const auto env = env_of(make_worker_specs(plan_of_two(), facts)[1].environment);
    CHECK_FALSE(env.use_agent_store);
    CHECK(env.is_launched());
    CHECK(env.master_port == 29500);
    CHECK(env.store() == ddprun::StoreEndpoint{.host = "127.0.0.1", .port = 4711});
  }

  TEST_CASE("worker specs: environment variables of the plan override other ones") {
    auto plan = plan_of_two();
    plan.workers[1].environment = {{"LOCAL_RANK", "0"}, {"OMP_NUM_THREADS", "1"}};
    const auto specs = make_worker_specs(plan, kFacts);
    CHECK(specs[1].environment.at("LOCAL_RANK") == "0");
    CHECK(specs[1].environment.at("OMP_NUM_THREADS") == "1");
    CHECK(env_of(specs[1].environment).control_page_slot == 1);
    CHECK_FALSE(specs[0].environment.contains("OMP_NUM_THREADS"));
  }

  TEST_CASE("worker specs: prefix fields for worker and attempt and stream are filled in") {
    auto plan = plan_of_two();
    plan.options.prefix.pieces = {{PrefixField::rank, ""},      {PrefixField::none, "."},
                                  {PrefixField::attempt, ""},   {PrefixField::none, "."},
                                  {PrefixField::node_rank, ""}, {PrefixField::stream, ""}};
    const auto specs = make_worker_specs(plan, kFacts);
    CHECK(specs[1].standard_output.prefix == LinePrefix("1.2.0stdout"));
    CHECK(specs[1].standard_error.prefix == LinePrefix("1.2.0stderr"));
  }

  TEST_CASE("worker specs: only output without a prefix is printed verbatim") {
    auto plan = plan_of_two();
    plan.workers[0].is_shown = plan.workers[1].is_shown = true;
    const auto form = [&] { return make_worker_specs(plan, kFacts)[0].standard_output.form; };
    plan.options.prefix.pieces = {{PrefixField::rank, ""}};
    CHECK(form() == ConsoleForm::lines);
    plan.options.has_prefix_by_tee_only = true;  // like a run with the name torchrun
    CHECK(form() == ConsoleForm::lines);
    plan.options.prefix.pieces.clear();
    CHECK(form() == ConsoleForm::verbatim);
    plan.workers[1].is_shown = false;
    CHECK(form() == ConsoleForm::verbatim_bytes);
  }

  TEST_CASE("worker specs: COLUMNS is the terminal width without the prefix unless set") {
    auto plan = plan_of_two();
    plan.options.prefix.pieces = {{PrefixField::none, "[0]:"}};
    plan.terminal_variables = {"COLUMNS", "LINES", "TQDM_NCOLS"};
    auto facts = kFacts;
    const auto variable = [&](const std::string& name) {
      const auto spec = make_worker_specs(plan, facts)[0];
      const auto found = spec.environment.find(name);
      return found == spec.environment.end() ? "" : found->second;
    };
    CHECK(variable("COLUMNS").empty());
    facts.error_terminal = {.columns = 100, .rows = 30};
    CHECK(variable("COLUMNS") == "96");
    CHECK(variable("LINES") == "30");
    CHECK(variable("TQDM_NCOLS") == "95");
    facts.output_terminal = {.columns = 80, .rows = 24};
    CHECK(variable("COLUMNS") == "76");
    plan.workers[0].standard_output = StreamTarget::file;
    CHECK(variable("COLUMNS") == "96");
    plan.options.prefix.pieces.push_back({PrefixField::time, ""});
    CHECK(variable("COLUMNS") == "73");
    plan.terminal_variables = {"LINES"};
    CHECK(variable("COLUMNS").empty());
    CHECK(variable("LINES") == "30");
    facts.error_terminal = {.columns = 30, .rows = 30};
    CHECK(variable("LINES").empty());  // the rest of the row is too narrow
    facts.error_terminal = {.columns = 100, .rows = 30};
    plan.workers[0].is_shown = false;
    CHECK(variable("LINES").empty());
  }

  TEST_CASE("worker specs: matching tee lines go to a file of the attempt") {
    auto plan = plan_of_two();
    plan.log_dir = "/run";
    plan.options.duplicate_stdout_filters = {"a"};
    plan.options.duplicate_stderr_filters = {"b"};
    plan.workers[0].standard_output = StreamTarget::tee;
    plan.workers[0].standard_error = StreamTarget::file;
    plan.workers[1].standard_error = StreamTarget::tee;
    auto specs = make_worker_specs(plan, kFacts);
    CHECK(specs[0].standard_output.filtered_file.path() == "/run/attempt_2/filtered_stdout.log");
    CHECK(specs[0].standard_output.filters == plan.options.duplicate_stdout_filters);
    CHECK(specs[0].standard_error.filtered_file.empty());
    CHECK(specs[1].standard_error.filtered_file.path() == "/run/attempt_2/filtered_stderr.log");
    plan.log_dir.reset();
    CHECK(make_worker_specs(plan, kFacts)[0].standard_output.filtered_file.empty());
  }

  TEST_CASE("worker specs: at most one worker inherits the agent's standard input") {
    struct Row {
      StdinChoice choice;
      InputKind input;
      int first_rank, world_size, reader;
    };
    constexpr int kNoWorker = -1;
    const StdinChoice automatic;
    const StdinChoice none{.is_automatic = false};
    const StdinChoice rank_1{.is_automatic = false, .rank = 1};
    const Row rows[] = {
        {automatic, InputKind::terminal, 0, 2, 0},
        {automatic, InputKind::terminal, 0, 4, 0},
        {automatic, InputKind::terminal, 2, 4, kNoWorker},  // rank 0 is on another node
        {automatic, InputKind::readable, 0, 2, 0},
        {automatic, InputKind::readable, 2, 4, kNoWorker},
        {automatic, InputKind::readable, 0, 1, 0},
        {automatic, InputKind::terminal, 0, 1, 0},
        {automatic, InputKind::unreadable, 0, 1, kNoWorker},
        {automatic, InputKind::unreadable, 0, 2, kNoWorker},
        {none, InputKind::terminal, 0, 1, kNoWorker},
        {rank_1, InputKind::terminal, 0, 2, 1},
        {rank_1, InputKind::readable, 0, 2, 1},
        {rank_1, InputKind::unreadable, 0, 2, 1},
        {rank_1, InputKind::terminal, 2, 4, kNoWorker},
    };
    for (const auto& row : rows) {
      auto plan = plan_of_two();
      plan.options.stdin_worker = row.choice;
      auto facts = kFacts;
      facts.standard_input = row.input;
      facts.placement.first_rank = row.first_rank;
      facts.placement.world_size = row.world_size;
      if (row.world_size == 1) plan.workers.pop_back();
      int reader = kNoWorker;
      int readers = 0;
      for (const auto& spec : make_worker_specs(plan, facts)) {
        if (!spec.inherits_standard_input) continue;
        reader = spec.rank;
        ++readers;
      }
      CAPTURE(&row - rows);
      CHECK(reader == row.reader);
      CHECK(readers <= 1);
    }
  }

  TEST_CASE("worker specs: a rank filter hides all other workers") {
    auto plan = plan_of_two();
    for (auto& worker : plan.workers) worker.is_shown = true;
    plan.options.ranks_filter = {1};
    auto specs = make_worker_specs(plan, kFacts);
    CHECK_FALSE(specs[0].standard_output.is_shown);
    CHECK(specs[1].standard_output.is_shown);
    CHECK(specs[1].standard_error.is_shown);
    plan.workers[1].is_shown = false;
    specs = make_worker_specs(plan, kFacts);
    CHECK_FALSE(specs[1].standard_output.is_shown);
  }

  TEST_CASE("worker specs: streams go to files in the worker's folder or to /dev/null") {
    auto plan = plan_of_two();
    CHECK(make_worker_specs(plan, kFacts)[1].standard_output.file.path() == "/dev/null");
    plan.log_dir = "/run";
    const auto specs = make_worker_specs(plan, kFacts);
    CHECK(specs[1].standard_output.target == StreamTarget::file);
    CHECK(specs[1].standard_output.file.path() == "/run/attempt_2/1/stdout.log");
    CHECK(specs[1].standard_error.target == StreamTarget::tee);
    CHECK(specs[1].standard_error.file.path() == "/run/attempt_2/1/stderr.log");
    CHECK_FALSE(specs[1].standard_error.is_shown);
    CHECK(specs[0].standard_output.target == StreamTarget::console);
    CHECK(specs[0].standard_output.prefix == LinePrefix("[trainer0]:"));
  }
}

}  // namespace worker_specs_test
