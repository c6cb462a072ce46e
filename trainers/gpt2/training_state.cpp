#include "trainers/gpt2/training_state.hpp"

#include <ddprun/error.hpp>

#include <nlohmann/json.hpp>

#include <span>
#include <vector>

namespace trainer::gpt2 {

namespace {

using ddprun::Checkpoint;
using ddprun::DataType;
using ddprun::Errc;
using ddprun::Error;
using ddprun::ProcessGroup;

/// Calls `visit` with each array that training changes and its section's name.
template <typename Visit>
void for_each_array(const Model& model, Optimizer& optimizer, const Visit& visit) {
  for (std::size_t index = 0; index < model.parameters().size(); ++index) {
    const std::string& name = model.parameters()[index].spec.name;
    const Optimizer::State& state = optimizer.states()[index];
    visit("parameters/" + name, state.master.buffer);
    visit("optimizer/mean/" + name, state.mean.buffer);
    visit("optimizer/square/" + name, state.square.buffer);
  }
}

/// Broadcasts rank 0's text through device memory, as the group's backend requires.
std::string share_text(Compute& compute, ProcessGroup& group, std::string own) {
  if (group.size() == 1) return own;
  std::int64_t length = static_cast<std::int64_t>(own.size());
  const auto share = [&](std::span<std::byte> bytes, DataType type) {
    const Array array = compute.allocate(bytes.size() / ddprun::size_of(type), type);
    compute.copy_in(bytes, array.buffer);
    group.broadcast(array.buffer, 0).wait();
    compute.copy_out(array.buffer, bytes);
  };
  share(std::as_writable_bytes(std::span(&length, 1)), DataType::int64);
  own.resize(static_cast<std::size_t>(length));
  if (length > 0) share(std::as_writable_bytes(std::span(own)), DataType::uint8);
  return own;
}

void refuse_other_settings(std::int64_t step, const nlohmann::json& then, const Settings& now) {
  const bool is_same_device = then.value("device", "") == now.value("device", "");
  std::string differences;
  for (const auto& [name, value] : now.items()) {
    const auto old = then.find(name);
    if (old != then.end() && *old == value) continue;
    // Devices differ in rounding only. Threads only matter on the CPU.
    if (name == "device" || (name == "threads" && !is_same_device)) continue;
    // A constant rate does not depend on the end.
    if (name == "steps" && now.value("lr_schedule", "") == "constant") continue;
    differences += (differences.empty() ? "" : ", ") + display_name(name) + " was " +
                   (old == then.end() ? "not there" : text_of(*old)) + " and is " + text_of(value);
  }
  if (differences.empty()) return;
  throw Error(Errc::usage, "the checkpoint of step " + std::to_string(step) +
                               " was made with other settings: " + differences +
                               " (use the old settings or another --checkpoint_dir)");
}

/// Returns the state that is not in arrays as one text; empty without a checkpoint.
std::string head_of(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return "";
  const auto found = checkpoint->sections.find("progress");
  if (found == checkpoint->sections.end()) {
    throw Error(Errc::usage, "the checkpoint of step " + std::to_string(checkpoint->step) +
                                 " has no section 'progress': it was not written by gpt2");
  }
  return {reinterpret_cast<const char*>(found->second.data()), found->second.size()};
}

}  // namespace

Checkpoint to_checkpoint(Compute& compute, const Model& model, Optimizer& optimizer,
                         const Progress& progress, const Settings& settings) {
  Checkpoint checkpoint = {.step = progress.step, .sections = {}};
  for_each_array(model, optimizer, [&](const std::string& name, const Buffer& buffer) {
    auto& section = checkpoint.sections[name];
    section.resize(buffer.bytes());
    compute.copy_out(buffer, section);
  });
  const nlohmann::json head = {
      {"step", progress.step}, {"sampler", progress.sampler}, {"settings", settings}};
  ddprun::put_section(checkpoint, "progress", head.dump());
  return checkpoint;
}

std::optional<Progress> restore(Compute& compute, ProcessGroup& group, Model& model,
                                Optimizer& optimizer, const std::optional<Checkpoint>& own,
                                const Settings& settings) {
  const bool is_first = group.rank() == 0;
  const std::string text = share_text(compute, group, is_first ? head_of(own) : std::string());
  Progress progress;
  if (!text.empty()) {
    const auto head = nlohmann::json::parse(text, nullptr, false);
    if (!head.is_object()) throw Error(Errc::usage, "the checkpoint's progress is not readable");
    progress = {.step = head.value("step", std::int64_t{0}), .sampler = head.value("sampler", "")};
    refuse_other_settings(progress.step, head.value("settings", nlohmann::json::object()),
                          settings);
    if (is_first) {
      for_each_array(model, optimizer, [&](const std::string& name, const Buffer& buffer) {
        std::vector<std::byte> bytes(buffer.bytes());
        ddprun::get_section(*own, name, std::span<std::byte>(bytes));
        compute.copy_in(bytes, buffer);
      });
    }
  }
  if (group.size() > 1) {
    compute.wait();
    for_each_array(model, optimizer, [&](const std::string&, const Buffer& buffer) {
      group.broadcast(buffer, 0).wait();
    });
  }
  optimizer.publish();
  if (text.empty()) return std::nullopt;
  return progress;
}

std::uint64_t hash_of(Compute& compute, const Model& model) {
  constexpr std::uint64_t kOffset = 0xcbf29ce484222325;
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = kOffset;
  for (const ModelParameter& parameter : model.parameters()) {
    std::vector<std::byte> bytes(parameter.values.buffer.bytes());
    compute.copy_out(parameter.values.buffer, bytes);
    for (const std::byte byte : bytes) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * kPrime;
    }
  }
  return hash;
}

}  // namespace trainer::gpt2
