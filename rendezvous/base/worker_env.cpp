#include "rendezvous/base/rank_problems.hpp"
#include <ddprun/error.hpp>
#include <ddprun/worker_env.hpp>

#include <charconv>
#include <cstdlib>
#include <limits>

namespace ddprun {

namespace {

constexpr int kMost = std::numeric_limits<int>::max();
constexpr int kPortMost = 65535;

void add_problem(std::string& problems, const std::string& problem) {
  if (!problem.empty()) problems += (problems.empty() ? "" : "; ") + problem;
}

/// Returns why a value is out of range; empty if it is not.
std::string range_problem(const std::string& name, int value, int least, int most) {
  if (value >= least && value <= most) return {};
  return name + "=" + std::to_string(value) + " is not within " + std::to_string(least) + ".." +
         std::to_string(most);
}

/// Collects the values and all that is wrong with them, so that one message can name every mistake.
class Reader {
 public:
  explicit Reader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  int integer(const std::string& name, int least, int most, std::optional<int> if_absent = {}) {
    const auto text = lookup_(name);
    if (!text) {
      if (!if_absent) problem(name + " is not set");
      return if_absent.value_or(least);
    }
    int value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size()) {
      problem(name + "='" + *text + "' is not an integer");
      return least;
    }
    const auto out_of_range = range_problem(name, value, least, most);
    problem(out_of_range);
    return out_of_range.empty() ? value : least;
  }

  std::string text(const std::string& name, const std::string& if_absent) {
    return lookup_(name).value_or(if_absent);
  }

  void problem(const std::string& what) { add_problem(problems_, what); }

  const std::string& problems() const { return problems_; }

 private:
  const EnvironmentLookup& lookup_;
  std::string problems_;
};

/// The variables that an MPI launcher sets for ranks and sizes.
struct MpiVariables {
  const char* vendor;
  RankLabels names;
};

constexpr MpiVariables kMpiVariables[] = {
    {"openmpi",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {"mpich", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
};

[[noreturn]] void refuse(const Reader& reader) {
  throw Error(Errc::usage, "worker environment: " + reader.problems() +
                               " (start the program with ddprun, which sets it)");
}

WorkerEnv from_mpi(const EnvironmentLookup& lookup, const MpiVariables& variables) {
  const RankLabels& names = variables.names;
  Reader reader(lookup);
  WorkerEnv env;
  env.mpi_vendor = variables.vendor;
  env.world_size = env.role_world_size = reader.integer(names.size, 1, kMost);
  env.rank = env.role_rank = reader.integer(names.rank, 0, kMost);
  env.local_world_size = reader.integer(names.local_size, 1, kMost, env.world_size);
  env.local_rank = reader.integer(names.local_rank, 0, kMost, env.rank);
  // Neither says which node this is; this holds where nodes have the same number of processes, in
  // blocks, as mpirun places them.
  env.node_rank = env.rank / env.local_world_size;
  env.node_count = (env.world_size + env.local_world_size - 1) / env.local_world_size;
  env.master_addr = reader.text("MASTER_ADDR", env.master_addr);
  env.master_port = static_cast<std::uint16_t>(reader.integer("MASTER_PORT", 0, kPortMost, 0));
  reader.problem(rank_problems(env, names));
  if (!reader.problems().empty()) refuse(reader);
  return env;
}

}  // namespace

std::string rank_problems(const WorkerEnv& env, const RankLabels& labels) {
  std::string problems;
  const auto check = [&](const char* rank_name, int rank, const char* size_name, int size) {
    const auto of_size = range_problem(size_name, size, 1, kMost);
    add_problem(problems, of_size);
    add_problem(problems, range_problem(rank_name, rank, 0, kMost));
    if (!of_size.empty() || rank < size) return;
    add_problem(problems, std::string(rank_name) + "=" + std::to_string(rank) + " is not below " +
                              size_name + "=" + std::to_string(size));
  };
  check(labels.rank, env.rank, labels.size, env.world_size);
  check(labels.local_rank, env.local_rank, labels.local_size, env.local_world_size);
  return problems;
}

std::map<std::string, std::string> to_environment(const WorkerEnv& env) {
  std::map<std::string, std::string> variables = {
      {"RANK", std::to_string(env.rank)},
      {"WORLD_SIZE", std::to_string(env.world_size)},
      {"LOCAL_RANK", std::to_string(env.local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(env.local_world_size)},
      {"GROUP_RANK", std::to_string(env.node_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(env.node_count)},
      {"ROLE_RANK", std::to_string(env.role_rank)},
      {"ROLE_WORLD_SIZE", std::to_string(env.role_world_size)},
      {"ROLE_NAME", env.role_name},
      {"MASTER_ADDR", env.master_addr},
      {"MASTER_PORT", std::to_string(env.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(env.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(env.max_restarts)},
      {"TORCHELASTIC_RUN_ID", env.run_id},
      // PyTorch compares with the text "True".
      {"TORCHELASTIC_USE_AGENT_STORE", env.use_agent_store ? "True" : "False"},
      {"TORCHELASTIC_ERROR_FILE", env.error_file},
  };
  if (env.agent_store_port != 0) {
    variables["DDPRUN_STORE_ADDR"] = env.agent_store_addr;
    variables["DDPRUN_STORE_PORT"] = std::to_string(env.agent_store_port);
  }
  if (env.control_page_fd) {
    variables["DDPRUN_CONTROL_FD"] = std::to_string(*env.control_page_fd);
    variables["DDPRUN_CONTROL_SLOT"] = std::to_string(env.control_page_slot);
  }
  if (env.shares_gpus) variables["DDPRUN_SHARE_GPU"] = "1";
  return variables;
}

WorkerEnv from_environment(const EnvironmentLookup& lookup) {
  if (!lookup("RANK") && !lookup("WORLD_SIZE")) {
    for (const auto& variables : kMpiVariables) {
      if (lookup(variables.names.size)) return from_mpi(lookup, variables);
    }
    return {};
  }
  Reader reader(lookup);
  WorkerEnv env;
  env.world_size = reader.integer("WORLD_SIZE", 1, kMost);
  env.rank = reader.integer("RANK", 0, kMost);
  // Programs that set only what PyTorch's env:// needs are taken to be one node.
  env.local_world_size = reader.integer("LOCAL_WORLD_SIZE", 1, kMost, env.world_size);
  env.local_rank = reader.integer("LOCAL_RANK", 0, kMost, env.rank);
  env.node_rank = reader.integer("GROUP_RANK", 0, kMost, 0);
  env.node_count = reader.integer("GROUP_WORLD_SIZE", 1, kMost, 1);
  env.role_rank = reader.integer("ROLE_RANK", 0, kMost, env.rank);
  env.role_world_size = reader.integer("ROLE_WORLD_SIZE", 1, kMost, env.world_size);
  env.role_name = reader.text("ROLE_NAME", env.role_name);
  env.master_addr = reader.text("MASTER_ADDR", env.master_addr);
  std::optional<int> no_port_needed;
  if (env.world_size == 1) no_port_needed = 0;
  env.master_port =
      static_cast<std::uint16_t>(reader.integer("MASTER_PORT", 0, kPortMost, no_port_needed));
  env.restart_count = reader.integer("TORCHELASTIC_RESTART_COUNT", 0, kMost, 0);
  env.max_restarts = reader.integer("TORCHELASTIC_MAX_RESTARTS", 0, kMost, 0);
  env.run_id = reader.text("TORCHELASTIC_RUN_ID", env.run_id);
  env.use_agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  if (!env.use_agent_store) {  // otherwise they are those of a run around this one
    env.agent_store_addr = reader.text("DDPRUN_STORE_ADDR", "");
    env.agent_store_port =
        static_cast<std::uint16_t>(reader.integer("DDPRUN_STORE_PORT", 0, kPortMost, 0));
  }
  env.error_file = reader.text("TORCHELASTIC_ERROR_FILE", "");
  if (lookup("DDPRUN_CONTROL_FD")) {
    env.control_page_fd = reader.integer("DDPRUN_CONTROL_FD", 0, kMost);
    env.control_page_slot = reader.integer("DDPRUN_CONTROL_SLOT", 0, kMost, env.local_rank);
  }
  env.shares_gpus = reader.text("DDPRUN_SHARE_GPU", "0") == "1";
  reader.problem(rank_problems(env, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
  if (!reader.problems().empty()) refuse(reader);
  return env;
}

StoreEndpoint WorkerEnv::store() const {
  if (agent_store_port != 0) return {.host = agent_store_addr, .port = agent_store_port};
  return {.host = master_addr, .port = master_port};
}

WorkerEnv from_process_environment() {
  return from_environment([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

}  // namespace ddprun
