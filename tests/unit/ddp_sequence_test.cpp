// The collectives of the toy model, phase by phase, compared with tests/interop/ddp_sequences/:
// those of PyTorch's DDP, which tests/interop/ddp_sequences.py records from PyTorch, and the
// reducer's own in the folder own/.
#include "tests/support/rank_errors.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace ddp_sequence_test {

using ddprun::as_buffer;
using ddprun::Buffer;
using ddprun::CollectiveSequence;
using ddprun::GradientReducer;
using ddprun::Parameter;
using ddprun::ProcessGroup;
using ddprun::ReducerOptions;

namespace {

/// Linear(10, 10), ReLU, Linear(10, 5), optionally with BatchNorm after the first layer.
struct Toy {
  std::vector<float> values = std::vector<float>(185);
  std::vector<float> statistics = std::vector<float>(20);
  std::int64_t batches = 0;
  std::vector<Parameter> parameters;
  std::vector<Buffer> state;

  explicit Toy(bool batch_norm) {
    std::vector<std::vector<std::size_t>> shapes = {{10, 10}, {10}, {5, 10}, {5}};
    if (batch_norm) shapes.insert(shapes.begin() + 2, {{10}, {10}});
    float* next = values.data();
    for (const auto& shape : shapes) {
      std::size_t elements = 1;
      for (const auto size : shape) elements *= size;
      parameters.push_back(
          {"p" + std::to_string(parameters.size()), as_buffer(next, elements), shape});
      next += elements;
    }
    if (!batch_norm) return;
    state = {as_buffer(statistics.data(), 10), as_buffer(statistics.data() + 10, 10),
             as_buffer(&batches, 1)};
  }
};

struct Case {
  std::string name;
  bool batch_norm = false;
  std::vector<bool> synchronise = {true, true, true};  ///< by step
  ReducerOptions options = {};
};

std::vector<Case> cases() {
  return {{.name = "plain"},
          {.name = "batch_norm", .batch_norm = true},
          {.name = "find_unused", .options = {.find_unused_parameters = true}},
          {.name = "static_graph", .options = {.static_graph = true}},
          {.name = "accumulation",
           .batch_norm = true,
           .synchronise = {false, true, false, true, false}}};
}

/// Collectives of all ranks by their position in the call order, which must be equal.
class Recorder {
 public:
  ddprun::GroupOptions options() {
    ddprun::GroupOptions options;
    options.on_collective = [this](const ddprun::CollectiveRecord& record) {
      const std::lock_guard lock(mutex_);
      const auto text = record.name + " " + std::to_string(record.bytes);
      const auto known = records_.emplace(record.sequence, text).first;
      if (known->second != text) known->second += " or " + text;
    };
    return options;
  }

  /// One line for each phase, which a barrier ends.
  std::string lines(const std::vector<std::string>& phases) const {
    std::string lines;
    auto record = records_.begin();
    for (const auto& phase : phases) {
      std::string list;
      for (; record != records_.end() && record->second != "barrier 0"; ++record) {
        list += (list.empty() ? "" : ", ") + record->second;
      }
      if (record != records_.end()) ++record;
      lines += phase + ": " + (list.empty() ? "none" : list) + "\n";
    }
    return lines;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::string> records_;
};

std::string sequence_of(const Case& test) {
  Recorder recorder;
  std::vector<std::string> phases = {"construct"};
  for (std::size_t step = 0; step < test.synchronise.size(); ++step) {
    phases.push_back("step " + std::to_string(step) + " forward");
    phases.push_back("step " + std::to_string(step) + " backward");
  }
  const auto errors = ddprun::test::errors_of_ranks(
      2,
      [&](ProcessGroup& group) {
        Toy toy(test.batch_norm);
        auto options = test.options;
        options.broadcast_buffers = test.batch_norm;
        GradientReducer reducer(group, toy.parameters, toy.state, options);
        group.barrier().wait();
        for (const bool synchronise : test.synchronise) {
          reducer.begin_forward(synchronise);
          group.barrier().wait();
          reducer.begin(synchronise);
          for (std::size_t p = toy.parameters.size(); p-- > 0;) reducer.ready(p);
          reducer.finish();
          group.barrier().wait();
        }
      },
      recorder.options());
  for (const auto& error : errors) CHECK(error == "");
  return recorder.lines(phases);
}

/// The file's lines, with "broadcast 12*8" (elements and bytes of each) as "broadcast 96".
std::string golden(const std::string& name) {
  std::ifstream file(DDPRUN_SOURCE_DIR "/tests/interop/ddp_sequences/" + name + ".txt");
  std::string text;
  for (std::string word; file >> word;) {
    const auto times = word.find('*');
    const bool ends_line = file.peek() == '\n';
    if (times != std::string::npos) {
      const auto bytes = std::stoul(word) * std::stoul(word.substr(times + 1));
      word = std::to_string(bytes) + (word.ends_with(',') ? "," : "");
    }
    text += word + (ends_line ? "\n" : " ");
  }
  return text;
}

}  // namespace

TEST_SUITE("sequence of collectives") {
  TEST_CASE("DDP sequence: the compatible mode issues the same collectives as PyTorch's DDP") {
    for (auto test : cases()) {
      test.options.sequence = CollectiveSequence::pytorch;
      CAPTURE(test.name);
      CHECK(sequence_of(test) == golden(test.name));
    }
  }

  TEST_CASE("DDP sequence: the default mode issues the collectives of its golden files") {
    auto own = cases();
    own.push_back({.name = "rebuild", .options = {.rebuild_buckets = true}});
    for (const auto& test : own) {
      CAPTURE(test.name);
      CHECK(sequence_of(test) == golden("own/" + test.name));
    }
  }

  TEST_CASE("DDP sequence: the compatible mode reports ranks with different parameters") {
    struct Difference {
      std::function<void(Toy&)> make;
      std::vector<std::string> errors;
    };
    const std::vector<Difference> differences = {
        {[](Toy& toy) { toy.parameters.pop_back(); },
         {"GradientReducer: rank 0 has 4 parameters, rank 1 has 3",
          "GradientReducer: rank 1 has 3 parameters, rank 0 has 4"}},
        {[](Toy& toy) {
           toy.parameters[2].shape = {10, 5};
         },
         {"", "GradientReducer: rank 1's parameters have other dimensions than rank 0's"}}};
    for (const auto& difference : differences) {
      const auto errors = ddprun::test::errors_of_ranks(2, [&](ProcessGroup& group) {
        Toy toy(false);
        if (group.rank() == 1) difference.make(toy);
        GradientReducer(group, toy.parameters, {},
                        {.broadcast_state = false, .sequence = CollectiveSequence::pytorch});
      });
      CHECK(errors == difference.errors);
    }
  }

  TEST_CASE("DDP sequence: a 32 MiB model has one bucket in the first step and two later") {
    // 32 MiB: the last layer's 4 MiB exceed the limit of 1 MiB, the other 28 MiB that of 25 MiB.
    std::vector<std::size_t> sizes;
    for (int layer = 0; layer < 8; ++layer) sizes.insert(sizes.end(), {1 << 20, 1 << 10});
    std::vector<float> values(std::size_t{8} * ((1 << 20) + (1 << 10)));
    std::vector<Parameter> parameters;
    float* next = values.data();
    for (const auto size : sizes) {
      parameters.push_back({"p" + std::to_string(parameters.size()), as_buffer(next, size)});
      next += size;
    }
    const auto errors = ddprun::test::errors_of_ranks(2, [&](ProcessGroup& group) {
      GradientReducer reducer(group, parameters, {},
                              {.broadcast_state = false, .sequence = CollectiveSequence::pytorch});
      for (int step = 0; step < 2; ++step) {
        reducer.begin();
        for (std::size_t p = parameters.size(); p-- > 0;) reducer.ready(p);
        const auto timeline = reducer.finish();
        const std::size_t expected = step == 0 ? 1 : 2;
        if (timeline.buckets.size() != expected) throw std::runtime_error("buckets");
      }
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

}  // namespace ddp_sequence_test
