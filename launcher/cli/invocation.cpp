#include "launcher/cli/invocation.hpp"

namespace ddprun {

Invocation invocation_of(std::string_view first_word) {
  const auto name = first_word.substr(first_word.rfind('/') + 1);
  if (name == "torchrun") return {std::string(name), Persona::torchrun};
  if (name == "torch.distributed.launch") return {std::string(name), Persona::distributed_launch};
  return {};
}

std::string adopt_habits(LaunchOptions& options, Persona persona) {
  if (persona == Persona::ddprun) return {};
  options.is_python_by_default = true;
  options.is_quiet = true;
  options.has_prefix_by_tee_only = true;
  options.is_open_by_default = true;
  if (persona == Persona::torchrun || options.use_env) return {};
  options.pass_local_rank = true;
  return options.no_python ? "--no_python: needs --use_env, as the program would get --local-rank=N"
                           : "";
}

std::string_view meaning_of_program(Persona persona) {
  switch (persona) {
    case Persona::ddprun:
      return "PROGRAM is a Python script (its name ends in .py) or anything that can be executed, "
             "looked for in PATH, then beside ddprun.";
    case Persona::torchrun:
      return "PROGRAM is a Python script or, with --no_python, anything that can be executed, "
             "looked for in PATH, then beside ddprun.";
    case Persona::distributed_launch:
      return "PROGRAM is a Python script, which gets --local-rank=N before its arguments. With "
             "--use_env it does not, and with --no_python, too, it may be anything that can be "
             "executed.";
  }
  return "";
}

}  // namespace ddprun
