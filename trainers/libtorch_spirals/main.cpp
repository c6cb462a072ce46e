// Trains a LibTorch model that classifies the points of three spirals, on any number of workers,
// which may be killed at any time: with --checkpoint_dir the run resumes from the last checkpoint,
// uses each sample once per epoch, and ends with bit for bit equal parameters for equal numbers of
// workers.
#include "trainers/frame/checkpoint_sharing.hpp"
#include "trainers/frame/console.hpp"
#include "trainers/frame/json_lines.hpp"
#include "trainers/frame/text.hpp"
#include "trainers/libtorch_spirals/options.hpp"
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/error.hpp>
#include <ddprun/log.hpp>
#include <ddprun/torch.hpp>
#include <ddprun/worker.hpp>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <cstdio>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

namespace trainer::spirals {

namespace {

using ddprun::ElasticSampler;
using ddprun::ProcessGroup;
using torch::Tensor;

constexpr std::int64_t kArms = 3;
constexpr std::int64_t kDriftCheckSteps = 100;  // cheap for such a small model

/// Logs loaded checkpoints, and new directories, whose name may have been mistyped.
void log_to_stderr(ddprun::LogLevel, std::string_view text) {
  std::fprintf(stderr, "libtorch_spirals: %.*s\n", static_cast<int>(text.size()), text.data());
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    layers = register_module("layers",
                             torch::nn::Sequential(torch::nn::Linear(2, 64), torch::nn::Tanh(),
                                                   torch::nn::Linear(64, 64), torch::nn::Tanh(),
                                                   torch::nn::Linear(64, kArms)));
  }
  Tensor forward(const Tensor& points) { return layers->forward(points); }

  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Net);

struct Spirals {
  Tensor points;  ///< [samples, 2] float32
  Tensor arms;    ///< [samples] int64
};

/// Each arm is rotated by a third of a circle, and makes a full turn.
Spirals make_spirals(const Options& options) {
  torch::manual_seed(static_cast<std::uint64_t>(options.seed));
  const Tensor arms = torch::arange(options.samples) % kArms;
  const Tensor radius = torch::rand({options.samples});
  const Tensor turned = radius + arms / static_cast<double>(kArms);
  const Tensor angle = 2 * std::numbers::pi * turned + 0.1 * torch::randn({options.samples});
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), arms};
}

Net make_net(const Options& options) {
  torch::manual_seed(static_cast<std::uint64_t>(options.seed));
  return {};
}

ElasticSampler make_sampler(const Options& options, const ProcessGroup& group) {
  return ElasticSampler({.samples = options.samples,
                         .global_batch = options.global_batch_size,
                         .seed = static_cast<std::uint64_t>(options.seed)},
                        group.size(), group.rank());
}

/// FNV-1a over the parameters' bytes.
std::uint64_t hash_of(const Net& net) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& parameter : net->parameters()) {
    const auto bytes = parameter.contiguous();
    const auto* const data = static_cast<const unsigned char*>(bytes.data_ptr());
    for (std::size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ data[i]) * 0x100000001b3;
  }
  return hash;
}

std::string sampler_state_of(const ddprun::Checkpoint& checkpoint) {
  const auto found = checkpoint.sections.find("sampler");
  if (found == checkpoint.sections.end()) {
    throw ddprun::Error(ddprun::Errc::usage,
                        "the checkpoint of step " + std::to_string(checkpoint.step) +
                            " has no section 'sampler': it was not written by libtorch_spirals");
  }
  return {reinterpret_cast<const char*>(found->second.data()), found->second.size()};
}

class Training {
 public:
  Training(const Options& options, ProcessGroup& group)
      : options_(options),
        group_(group),
        data_(make_spirals(options)),
        net_(make_net(options)),
        optimizer_(net_->parameters(), torch::optim::AdamOptions(options.lr)),
        sampler_(make_sampler(options, group)) {}

  void run(int attempt);

 private:
  bool is_reporter() const { return group_.rank() == 0; }
  void resume();
  void save();
  void take_step(ddprun::torch::DistributedDataParallel<Net>& model);
  double accuracy();

  const Options& options_;
  ProcessGroup& group_;
  Spirals data_;
  Net net_{nullptr};
  torch::optim::Adam optimizer_;
  ElasticSampler sampler_;
  std::optional<ddprun::CheckpointDirectory> checkpoints_;
  std::int64_t step_ = 0;
  double loss_ = 0;
};

/// Resumes all ranks from rank 0's checkpoint.
void Training::resume() {
  if (options_.checkpoint_dir.empty()) return;
  std::optional<ddprun::Checkpoint> newest;
  if (is_reporter()) {
    checkpoints_.emplace(options_.checkpoint_dir,
                         ddprun::CheckpointDirectory::Options{.log = log_to_stderr});
    checkpoints_->claim();
    newest = checkpoints_->load_newest();
  }
  newest = share_checkpoint(group_, std::move(newest));
  if (!newest) return;
  step_ = newest->step;
  ddprun::torch::get_module(*newest, "model", *net_);
  ddprun::torch::get_optimizer(*newest, "optimizer", optimizer_);
  sampler_.load(ElasticSampler::State::from_text(sampler_state_of(*newest)));
}

void Training::save() {
  if (!checkpoints_) return;
  ddprun::Checkpoint checkpoint{.step = step_, .sections = {}};
  ddprun::torch::put_module(checkpoint, "model", *net_);
  ddprun::torch::put_optimizer(checkpoint, "optimizer", optimizer_);
  put_section(checkpoint, "sampler", sampler_.state().to_text());
  checkpoints_->save(checkpoint);
}

/// Gradients are summed over workers, whose shares of the step's samples may differ in size.
void Training::take_step(ddprun::torch::DistributedDataParallel<Net>& model) {
  const auto samples = torch::tensor(sampler_.samples(), torch::kInt64);
  const auto output = model.forward(data_.points.index_select(0, samples));
  const auto loss = torch::nn::functional::cross_entropy(
                        output, data_.arms.index_select(0, samples),
                        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)) /
                    sampler_.window_size();
  model.zero_grad();
  loss.backward();
  optimizer_.step();
  auto sum = loss.item<double>();
  group_.all_reduce(ddprun::as_buffer(&sum, 1)).wait();
  loss_ = sum;
  sampler_.commit();
  ++step_;
}

double Training::accuracy() {
  const torch::NoGradGuard no_graph;
  return net_->forward(data_.points)
      .argmax(1)
      .eq(data_.arms)
      .to(torch::kFloat64)
      .mean()
      .item<double>();
}

void Training::run(int attempt) {
  resume();
  Console console(!is_reporter());
  JsonLines metrics(is_reporter() ? options_.metrics : "", attempt > 0 || step_ > 0
                                                               ? JsonLines::OpenMode::append
                                                               : JsonLines::OpenMode::truncate);
  const auto write = [&](const nlohmann::ordered_json& line) {
    if (metrics.is_open()) metrics.write(line);
  };
  write({{"event", "start"}, {"attempt", attempt}, {"workers", group_.size()}, {"step", step_}});
  auto reducing = ddprun::torch::ddp_defaults();
  reducing.op = ddprun::ReduceOp::sum;
  reducing.drift_check_steps = kDriftCheckSteps;
  ddprun::torch::DistributedDataParallel model(net_, group_, reducing);
  while (sampler_.epoch() < options_.epochs) {
    take_step(model);
    write({{"event", "step"}, {"step", step_}, {"loss", loss_}});
    if (sampler_.is_at_end()) {
      console.line(format("epoch %lld: loss %.4f, accuracy %.1f %%",
                          static_cast<long long>(sampler_.epoch() + 1), loss_, 100 * accuracy()));
      sampler_.next_epoch();
    }
    if (step_ % options_.checkpoint_every == 0) save();
  }
  save();
  const auto hash = format("%016llx", static_cast<unsigned long long>(hash_of(net_)));
  console.line(
      format("trained in %lld steps, parameters %s", static_cast<long long>(step_), hash.c_str()));
  write({{"event", "end"}, {"accuracy", accuracy()}, {"parameters_hash", hash}});
  console.check();
}

int run(const ddprun::WorkerEnv& env, int argc, char** argv) {
  const auto command_line = parse_command_line(argc, argv);
  if (!command_line.help.empty()) {
    std::fputs(command_line.help.c_str(), stdout);
    return 0;
  }
  auto group = ProcessGroup::create(env);
  Training(command_line.options, group).run(env.restart_count);
  return 0;
}

}  // namespace

}  // namespace trainer::spirals

int main(int argc, char** argv) {
  return ddprun::run_worker(
      [&](const ddprun::WorkerEnv& env) { return trainer::spirals::run(env, argc, argv); });
}
