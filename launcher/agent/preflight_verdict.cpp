#include "launcher/agent/preflight_verdict.hpp"

#include "launcher/agent/blame.hpp"
#include "launcher/report/event_text.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace ddprun {

namespace {

/// Describes the end of a worker without a report.
std::string end_without_report(const WorkerExited& exit) {
  std::string text = describe_failure(exit);
  if (!exit.error_message.empty()) return text + ": " + exit.error_message;
  return exit.last_lines.empty() ? text : text + ": " + exit.last_lines.back();
}

/// Returns true if the worker failed by itself: neither stopped nor as a consequence of another
/// failure.
bool is_culprit(const WorkerExited& exit) {
  return exit.failed() && !exit.was_stopped && !is_victim_of_a_peer(exit);
}

struct Figure {
  const char* name;
  const char* unit;
  double PreflightReport::*value;
};

constexpr Figure kFigures[] = {
    {"memory", "B/s", &PreflightReport::memory_bytes_per_second},
    {"matrix product", "FLOP/s", &PreflightReport::product_flops},
    {"all-reduce by pairs", "B/s", &PreflightReport::exchange_bytes_per_second},
    {"of all", "B/s", &PreflightReport::all_reduce_bytes_per_second},
};

std::string figure_text(const Figure& figure, const std::vector<DeviceExamined>& devices) {
  double least = devices.front().report.*figure.value;
  for (const auto& device : devices) least = std::min(least, device.report.*figure.value);
  if (least == 0) return {};
  char text[96];
  std::snprintf(text, sizeof text, "%s %.3g G%s", figure.name, least / 1e9, figure.unit);
  return text;
}

}  // namespace

std::vector<DeviceExamined> judge_devices(const PreflightOutcome& outcome) {
  std::vector<DeviceExamined> devices;
  const bool has_culprit = std::any_of(outcome.exits.begin(), outcome.exits.end(), is_culprit);
  for (std::size_t i = 0; i < outcome.reports.size(); ++i) {
    DeviceExamined device{.local_rank = static_cast<int>(i)};
    const auto exit =
        std::find_if(outcome.exits.begin(), outcome.exits.end(),
                     [&](const WorkerExited& each) { return each.rank == device.local_rank; });
    if (outcome.reports[i]) {
      device.report = *outcome.reports[i];
    } else if (outcome.is_over_time) {
      device.report.problem =
          "it has not answered within " + std::to_string(outcome.limit.count()) + " s";
    } else if (exit != outcome.exits.end() && exit->failed() && !exit->was_stopped &&
               is_culprit(*exit) == has_culprit) {
      device.report.problem = end_without_report(*exit);
    } else {
      continue;
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

Problem objection_to_start(const std::vector<DeviceExamined>& devices, int workers) {
  std::string first;
  int others = -1;
  for (const auto& device : devices) {
    if (device.report.problem.empty()) continue;
    ++others;
    if (!first.empty()) continue;
    const auto& name = device.report.device;
    first = "preflight: local rank " + std::to_string(device.local_rank) +
            (name.empty() ? "" : ", " + name) + ": " + device.report.problem;
  }
  if (others > 0) first += " (and " + std::to_string(others) + " more)";
  const bool is_complete = devices.size() == static_cast<std::size_t>(workers);
  if (!first.empty()) return first;
  return is_complete ? std::nullopt : Problem("preflight: not all workers have reported");
}

std::string summary_of(const std::vector<DeviceExamined>& devices) {
  if (devices.empty()) return {};
  std::vector<std::string> names;
  for (const auto& device : devices) {
    const auto& name = device.report.device;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::vector<std::string> figures;
  for (const auto& figure : kFigures) {
    auto text = figure_text(figure, devices);
    if (!text.empty()) figures.push_back(std::move(text));
  }
  const auto what = names.size() == 1 && devices.size() > 1
                        ? std::to_string(devices.size()) + " x " + names.front()
                        : join(names, ", ");
  return what + " passed (at least: " + join(figures, ", ") + ")";
}

}  // namespace ddprun
