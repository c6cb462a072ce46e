#include "launcher/cli/invocation.hpp"

#include "launcher/plan/resolve_program.hpp"
#include "tests/support/hosts.hpp"

#include <doctest/doctest.h>

namespace invocation_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

const Invocation kTorchrun = invocation_of("/home/me/bin/torchrun");
const Invocation kLaunch = invocation_of("torch.distributed.launch");

CommandLine parse_as(const Invocation& invocation, const Strings& arguments,
                     const Variables& variables = {}) {
  return parse_command_line(arguments, lookup_in(variables), 80, invocation);
}

LaunchOptions options_as(const Invocation& invocation, const Strings& arguments) {
  const auto parsed = parse_as(invocation, arguments);
  if (const auto* problem = std::get_if<UsageProblem>(&parsed)) FAIL(describe(*problem));
  return std::get<LaunchOptions>(parsed);
}

std::string problems_as(const Invocation& invocation, const Strings& arguments) {
  const auto parsed = parse_as(invocation, arguments);
  const auto* problem = std::get_if<UsageProblem>(&parsed);
  return problem == nullptr ? "" : describe(*problem, invocation.name);
}

std::string help_as(const Invocation& invocation) {
  return std::get<HelpText>(parse_as(invocation, {"--help"})).text;
}

}  // namespace

TEST_SUITE("invocation") {
  TEST_CASE("invocation: the base name of the command selects the compatibility mode") {
    const std::map<std::string, Invocation> expected = {
        {"torchrun", {"torchrun", CompatMode::torchrun}},
        {"./torchrun", {"torchrun", CompatMode::torchrun}},
        {"/opt/x/torchrun", {"torchrun", CompatMode::torchrun}},
        {"bin/torch.distributed.launch",
         {"torch.distributed.launch", CompatMode::distributed_launch}},
        {"ddprun", {}},
        {"/torchrun/ddprun", {}},
        {"torchrun/", {}},
        {"ddprun-0.1", {}},
        {"", {}},
    };
    for (const auto& row : expected) {
      const auto& word = row.first;
      const auto& invocation = row.second;
      CHECK_MESSAGE(invocation_of(word) == invocation, word);
    }
  }

  TEST_CASE("invocation: problems and help show the invoked command's name") {
    CHECK(problems_as(kTorchrun, {}) ==
          "torchrun: no program given: torchrun [options] PROGRAM [arguments]\n"
          "Try 'torchrun --help'.\n");
    CHECK(contains(problems_as(kLaunch, {"--max_restarts=x", "train"}),
                   "torch.distributed.launch: --max_restarts=x: is not"));
    CHECK(contains(help_as(kTorchrun), "Usage: torchrun [options] PROGRAM"));
    CHECK(contains(help_as(kLaunch), "Usage: torch.distributed.launch [options]"));
  }

  TEST_CASE("invocation: torchrun mode runs every program with Python") {
    const Files files = {{"/home/me/train", FileKind::not_executable},
                         {"/home/me/tool", FileKind::executable},
                         {"/usr/bin/tool", FileKind::executable}};
    const auto command = [&](const Invocation& invocation, const Strings& arguments) {
      const auto resolved = resolve_program(options_as(invocation, arguments), host(files));
      if (const auto* problem = std::get_if<std::string>(&resolved)) return *problem;
      return std::get<Strings>(resolved).front();
    };
    CHECK(command(kTorchrun, {"train"}) == "/usr/bin/python3");
    CHECK(command(kTorchrun, {"tool"}) == "/usr/bin/python3");
    CHECK(command(kLaunch, {"tool"}) == "/usr/bin/python3");
    CHECK(command(kTorchrun, {"--no_python", "tool"}) == "/usr/bin/tool");
    CHECK(command({}, {"tool"}) == "/usr/bin/tool");
    CHECK(contains(command(kTorchrun, {"tran"}), "tran: no such file in /home/me"));
  }

  TEST_CASE(
      "invocation: torch.distributed.launch passes the local rank unless --use_env is given") {
    CHECK(options_as(kLaunch, {"train.py"}).pass_local_rank);
    CHECK_FALSE(options_as(kLaunch, {"--use_env", "train.py"}).pass_local_rank);
    CHECK_FALSE(options_as(kTorchrun, {"train.py"}).pass_local_rank);
    CHECK(options_as(kTorchrun, {"--pass_local_rank", "train.py"}).pass_local_rank);
  }

  TEST_CASE("invocation: torch.distributed.launch accepts --no_python only with --use_env") {
    CHECK(contains(problems_as(kLaunch, {"--no_python", "tool"}), "--no_python: "));
    CHECK(options_as(kLaunch, {"--no_python", "--use_env", "tool"}).no_python);
    CHECK(options_as(kTorchrun, {"--no_python", "tool"}).no_python);
  }

  TEST_CASE("invocation: compatibility modes are quiet and use prefixes only with --tee") {
    CHECK(options_as(kTorchrun, {"train.py"}).has_prefix_by_tee_only);
    CHECK(options_as(kLaunch, {"train.py"}).has_prefix_by_tee_only);
    CHECK_FALSE(options_as({}, {"train.py"}).has_prefix_by_tee_only);
    CHECK(options_as(kTorchrun, {"train.py"}).is_quiet);
    CHECK(options_as(kLaunch, {"train.py"}).is_quiet);
    CHECK_FALSE(options_as({}, {"train.py"}).is_quiet);
  }
}

}  // namespace invocation_test
