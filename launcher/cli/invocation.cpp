#include "launcher/cli/invocation.hpp"

namespace ddprun {

Invocation invocation_of(std::string_view first_word) {
  const auto name = first_word.substr(first_word.rfind('/') + 1);
  if (name == "torchrun") return {std::string(name), CompatMode::torchrun};
  if (name == "torch.distributed.launch")
    return {std::string(name), CompatMode::distributed_launch};
  return {};
}

Problem apply_compat_mode(LaunchOptions& options, CompatMode mode) {
  if (mode == CompatMode::ddprun) return std::nullopt;
  options.is_python_by_default = true;
  options.is_quiet = true;
  options.has_prefix_by_tee_only = true;
  options.is_open_by_default = true;
  if (mode == CompatMode::torchrun || options.use_env) return std::nullopt;
  options.pass_local_rank = true;
  if (!options.no_python) return std::nullopt;
  return "--no_python: the program would get --local-rank=N; add --use_env";
}

std::string_view program_help(CompatMode mode) {
  switch (mode) {
    case CompatMode::ddprun:
      return "PROGRAM is a Python script (its name ends in .py) or an executable in "
             "PATH or in the folder of ddprun.";
    case CompatMode::torchrun:
      return "PROGRAM is a Python script or, with --no_python, an executable in PATH or in "
             "the folder of ddprun.";
    case CompatMode::distributed_launch:
      return "PROGRAM is a Python script, which gets --local-rank=N before its arguments unless "
             "--use_env is given. With --use_env and --no_python it may be any executable.";
  }
  return "";
}

}  // namespace ddprun
