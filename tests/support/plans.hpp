// Plans of command lines on simulated machines.
#pragma once

#include "launcher/plan/make_plan.hpp"
#include "tests/support/hosts.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <variant>

namespace ddprun::test {

inline const Files kFiles = {{"/home/me/train.py", FileKind::not_executable},
                             {"/opt/ddprun/bin/trainer", FileKind::executable}};

inline HostFacts usual(const Variables& variables = {}) {
  return host(kFiles, variables);
}

inline LaunchPlan plan_of(const Strings& arguments, const HostFacts& facts = usual()) {
  std::vector<std::string> problems;
  auto plan = make_plan(options_of(arguments), facts, problems);
  if (!problems.empty()) FAIL(describe(UsageProblem{problems}));
  return plan;
}

inline std::string objections_to(const Strings& arguments, const HostFacts& facts = usual()) {
  std::vector<std::string> problems;
  make_plan(options_of(arguments), facts, problems);
  return problems.empty() ? "" : describe(UsageProblem{problems});
}

inline std::optional<std::string> variable(const WorkerPlan& worker, const std::string& name) {
  for (const auto& [key, value] : worker.environment) {
    if (key == name) return value;
  }
  return std::nullopt;
}

inline HostFacts with_gpus(int count, const Variables& variables = {}) {
  auto facts = usual(variables);
  facts.installed_gpus = count;
  return facts;
}

}  // namespace ddprun::test
