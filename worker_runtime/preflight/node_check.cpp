#include "worker_runtime/preflight/node_check.hpp"

#include "worker_runtime/preflight/exchange.hpp"
#include "worker_runtime/preflight/pairing.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::preflight {

namespace {

/// Returns the numbers of all ranks, by rank.
std::vector<double> share(ProcessGroup& host, double own) {
  std::vector<double> all(static_cast<std::size_t>(host.size()));
  host.all_gather(as_buffer(&own, 1), as_buffer(all.data(), all.size())).wait();
  return all;
}

bool is_any(const std::vector<double>& flags) {
  return std::any_of(flags.begin(), flags.end(), [](double flag) { return flag != 0; });
}

void add(std::string& text, const std::string& more) {
  if (more.empty()) return;
  text += (text.empty() ? "" : "; ") + more;
}

/// This rank's part of the check. Writes its findings to `report`, and shares with all ranks the
/// facts that decisions depend on, so that all ranks make the same decisions.
class Check {
 public:
  Check(ProcessGroup host, const NodeCheck& check) : host_(std::move(host)), check_(check) {}

  NodeResult run() {
    look_at_device();
    const bool is_alone = host_.size() == 1;
    if (!has_any_problem() && !is_alone) {
      compare("reads and writes its memory at", result_.report.memory_bytes_per_second, "B/s");
      compare("multiplies matrices at", result_.report.product_flops, "FLOP/s");
      if (!has_any_problem()) exchange();
    }
    return std::move(result_);
  }

 private:
  PreflightReport& report() { return result_.report; }

  void look_at_device() {
    auto looked = examine_by(Deadline::after(check_.settings.exam_limit), check_.examine);
    result_.is_hung = looked.is_hung;
    exam_ = std::move(looked.exam);
    report() = {.device = exam_.name,
                .problem = exam_.problem,
                .remark = exam_.remark,
                .memory_bytes_per_second = exam_.memory_bytes_per_second,
                .product_flops = exam_.product_flops};
    const bool is_cpu = exam_.device.kind == Device::Kind::cpu;
    const bool has_gpus = is_any(share(host_, is_cpu ? 0 : 1));
    if (is_cpu && has_gpus && exam_.problem.empty())
      report().problem = "it finds no GPU, but other workers of this node have one";
  }

  bool has_any_problem() { return is_any(share(host_, report().problem.empty() ? 0 : 1)); }

  /// A slow CPU is only a warning, since its clock may be reduced for a reason. Shared devices are
  /// not compared.
  void compare(const std::string& what, double own, const std::string& unit) {
    const auto all = share(host_, own);
    if (is_any(share(host_, exam_.is_shared ? 1 : 0))) return;
    const auto slow = slow_ranks(all, "it " + what, unit);
    auto& message = slow[static_cast<std::size_t>(host_.rank())];
    add(exam_.device.kind == Device::Kind::cpu ? report().remark : report().problem, message);
  }

  void exchange() {
    if (is_any(share(host_, exam_.no_exchange.empty() ? 0 : 1))) return;
    const ExchangeSettings settings{.device = exam_.device,
                                    .limit = check_.settings.exchange_limit};
    ProcessGroup group = check_.connect(exam_);
    const auto pairs = exchange_in_pairs(group, settings);
    report().exchange_bytes_per_second = pairs.bytes_per_second;
    if (is_any(share(host_, pairs.bytes_per_second > 0 ? 0 : 1))) {
      if (pairs.bytes_per_second == 0)
        add(report().problem, "no exchange with another device has succeeded: " + pairs.problem);
      return;
    }
    // The rate between CPU workers depends on the load of the machine.
    if (exam_.device.kind != Device::Kind::cpu)
      compare("exchanges data with the best of its partners at", pairs.bytes_per_second, "B/s");
    if (!has_any_problem()) exchange_among_all(group, settings);
  }

  void exchange_among_all(const ProcessGroup& group, const ExchangeSettings& settings) {
    const auto all = exchange_with_all(group, settings);
    report().all_reduce_bytes_per_second = all.bytes_per_second;
    const bool is_failed = is_any(share(host_, all.bytes_per_second > 0 ? 0 : 1));
    const bool is_known = is_any(share(host_, all.is_own_problem ? 1 : 0));
    // Without a known culprit, the problem applies to all ranks.
    if (is_failed && (all.is_own_problem || !is_known))
      add(report().problem, "an all-reduce of all workers of the node has failed: " + all.problem);
  }

  ProcessGroup host_;
  const NodeCheck& check_;
  Exam exam_;
  NodeResult result_;
};

}  // namespace

NodeResult check_node(ProcessGroup host, const NodeCheck& check) {
  return Check(std::move(host), check).run();
}

}  // namespace ddprun::preflight
