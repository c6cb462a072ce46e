// A training whose use of samples can be checked:
//   elastic_worker FOLDER SEED
// Every rank records the samples that it uses before each step and the parameters after it, so that
// a test that kills workers and nodes can count afterwards. All sums are of integers, so the final
// parameters are known in any case. In FOLDER:
//   lives               a line for each start of the workers: STEP RANKS, the step it resumes from
//   ledger.LIFE.RANK    "use STEP EPOCH SAMPLE ...", "after STEP WEIGHT ..."
//   final               the parameters at the end
#include <ddprun/checkpoint.hpp>
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>

namespace {

using namespace ddprun;
namespace fs = std::filesystem;

constexpr std::int64_t kEpochs = 3;
constexpr std::size_t kWeights = 5;
// Simulates the duration of a backward pass, so that kills of the schedule interrupt it.
constexpr auto kComputation = std::chrono::milliseconds(1);

using Weights = std::array<float, kWeights>;

float gradient_of(std::int64_t sample, std::size_t weight) {
  return static_cast<float>((sample * 31 + static_cast<std::int64_t>(weight) * 17) % 101);
}

void compute() {
  for (const auto until = Deadline::after(kComputation); !until.passed();)
    std::this_thread::yield();
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Number of this start of the workers, counted by rank 0, the only writer.
std::int64_t begin_life(const fs::path& folder, ProcessGroup& group, std::int64_t step) {
  std::int64_t life = 0;
  if (group.rank() == 0) {
    std::ifstream before(folder / "lives");
    for (std::string line; std::getline(before, line);) ++life;
    std::ofstream(folder / "lives", std::ios::app) << step << ' ' << group.size() << '\n';
  }
  group.broadcast(as_buffer(&life, 1), 0).wait();
  return life;
}

class Training {
 public:
  Training(fs::path folder, unsigned seed, ProcessGroup& group)
      : folder_(std::move(folder)),
        group_(group),
        checkpoints_(folder_ / "checkpoints"),
        sampler_(options_of(seed), group.size(), group.rank()),
        save_every_(1 + seed % 4) {
    // All ranks read data that no rank writes any more.
    if (group.rank() == 0) checkpoints_.claim();
    group.barrier().wait();
    if (const auto newest = checkpoints_.load_newest()) {
      step_ = newest->step;
      get_section(*newest, "weights", weights_);
      sampler_.load(ElasticSampler::State::from_text(text_of(newest->sections.at("sampler"))));
    }
    const auto life = begin_life(folder_, group, step_);
    ledger_.open(folder_ / ("ledger." + std::to_string(life) + "." + std::to_string(group.rank())));
  }

  void run() {
    GradientReducer reducer(
        group_, {{"first", as_buffer(weights_.data(), 3)}, {"second", as_buffer(&weights_[3], 2)}},
        {}, {.first_bucket_bytes = 4, .op = ReduceOp::sum});
    while (sampler_.epoch() < kEpochs) {
      take_step(reducer);
      sampler_.commit();
      ++step_;
      if (sampler_.is_at_end()) sampler_.next_epoch();
      write("after", weights_);
      const bool is_last = sampler_.epoch() == kEpochs;
      if (group_.rank() == 0 && (is_last || step_ % save_every_ == 0)) save();
    }
    if (group_.rank() != 0) return;
    std::ofstream file(folder_ / "final");
    for (const float weight : weights_) file << weight << ' ';
  }

 private:
  static ElasticSamplerOptions options_of(unsigned seed) {
    std::mt19937 random(seed);
    return {.samples = static_cast<std::int64_t>(60 + random() % 60),
            .global_batch = static_cast<std::int64_t>(3 + random() % 4),
            .seed = seed,
            .order = static_cast<SampleOrder>(random() % 2)};
  }

  void take_step(GradientReducer& reducer) {
    const auto samples = sampler_.samples();
    std::vector<std::int64_t> use = {sampler_.epoch()};
    use.insert(use.end(), samples.begin(), samples.end());
    write("use", use);
    reducer.zero_gradients();
    reducer.begin();
    for (const std::size_t parameter : {1u, 0u}) {
      const Buffer gradient = reducer.gradient(parameter);
      auto* const values = static_cast<float*>(gradient.data);
      const std::size_t first = parameter == 0 ? 0 : 3;
      for (std::size_t i = 0; i < gradient.elements; ++i) {
        for (const auto sample : samples) values[i] += gradient_of(sample, first + i);
      }
      compute();
      reducer.ready(parameter);
    }
    reducer.finish();
    for (std::size_t i = 0; i < kWeights; ++i) {
      const auto* const gradient = static_cast<const float*>(reducer.gradient(i < 3 ? 0 : 1).data);
      weights_[i] += gradient[i < 3 ? i : i - 3];
    }
  }

  /// Writes whole lines, which survive this process.
  template <typename Numbers>
  void write(const char* what, const Numbers& numbers) {
    std::ostringstream line;
    line << what << ' ' << step_;
    for (const auto number : numbers) line << ' ' << number;
    ledger_ << line.str() << '\n' << std::flush;
  }

  void save() {
    Checkpoint checkpoint{.step = step_, .sections = {}};
    put_section(checkpoint, "weights", weights_);
    put_section(checkpoint, "sampler", sampler_.state().to_text());
    checkpoints_.save(checkpoint);
  }

  fs::path folder_;
  ProcessGroup& group_;
  CheckpointDirectory checkpoints_;
  ElasticSampler sampler_;
  std::int64_t save_every_;
  std::int64_t step_ = 0;
  Weights weights_{};
  std::ofstream ledger_;
};

}  // namespace

int main(int, char** argv) {
  return run_worker([&](const WorkerEnv& env) {
    auto group = ProcessGroup::create(env, {.arena_bytes = std::size_t{4} << 20});
    Training(argv[1], static_cast<unsigned>(std::stoul(argv[2])), group).run();
    return 0;
  });
}
