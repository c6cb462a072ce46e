#include "trainers/trainer/training_state.hpp"

#include <ddprun/error.hpp>

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

namespace trainer {

namespace {

using ddprun::Checkpoint;
using ddprun::Errc;
using ddprun::Error;

[[noreturn]] void refuse(const Checkpoint& checkpoint, const std::string& what) {
  throw Error(Errc::usage,
              "the checkpoint of step " + std::to_string(checkpoint.step) + " " + what);
}

/// Calls `visit` with the section name, device and array of all state that training changes.
template <typename Visit>
void for_each_array(const Model& model, Optimizer& optimizer, const Visit& visit) {
  for (const Parameter* parameter : model.parameters()) {
    visit("parameters/" + parameter->name, *parameter->place.compute, parameter->master.buffer);
  }
  std::size_t index = 0;
  for (const StateBuffer* buffer : model.buffers()) {
    visit("buffers/" + std::to_string(index++), *buffer->compute, buffer->values.buffer);
  }
  index = 0;
  for (const StateBuffer* state : optimizer.state()) {
    visit("optimizer/" + std::to_string(index++), *state->compute, state->values.buffer);
  }
}

std::vector<std::byte> bytes_of(Compute& compute, const Buffer& values) {
  std::vector<std::byte> bytes(values.bytes());
  compute.copy_out(values, bytes);
  return bytes;
}

nlohmann::json parse_section(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.sections.find(name);
  if (found == checkpoint.sections.end()) refuse(checkpoint, "has no section '" + name + "'");
  const auto* text = reinterpret_cast<const char*>(found->second.data());
  auto json = nlohmann::json::parse(text, text + found->second.size(), nullptr, false);
  if (!json.is_object()) refuse(checkpoint, "has a section '" + name + "' that is not readable");
  return json;
}

std::string display_name(const std::string& setting) {
  const bool is_option = setting != "workers" && setting != "samples";
  return is_option ? "--" + setting : "the number of " + setting;
}

/// Formats numbers with the fewest digits that identify them.
std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void refuse_other_settings(const Checkpoint& checkpoint, const Settings& now) {
  const auto then = parse_section(checkpoint, "settings");
  const bool is_same_device = then.value("device", "") == now.value("device", "");
  std::string differences;
  std::string more_epochs;
  std::string more_workers;
  for (const auto& [name, value] : now.items()) {
    const auto old = then.find(name);
    if (old != then.end() && *old == value) continue;
    // Devices differ in rounding only. Threads only matter on the CPU.
    if (name == "device" || (name == "threads" && !is_same_device)) continue;
    if (name == "workers") {
      more_workers = "; only a training with --global_batch_size can change it";
    }
    if (name == "epochs") {
      // A constant rate does not depend on the end.
      if (now.value("lr_schedule", "") == "constant") continue;
      more_epochs =
          "; the linear schedule has lowered the rate for the old number of epochs: only a "
          "training with --lr_schedule constant can change it";
    }
    differences += (differences.empty() ? "" : ", ") + display_name(name) + " was " +
                   (old == then.end() ? "not known" : text_of(*old)) + " and is now " +
                   text_of(value);
  }
  if (differences.empty()) return;
  refuse(checkpoint, "is of another training: " + differences +
                         " (use the old settings or another --checkpoint_dir" + more_workers +
                         more_epochs + ")");
}

}  // namespace

Checkpoint to_checkpoint(const Model& model, Optimizer& optimizer, const Progress& progress,
                         const Settings& settings) {
  const nlohmann::json sampler = {{"epoch", progress.epoch},
                                  {"samples_used", progress.samples_used},
                                  {"epoch_loss", progress.epoch_loss}};
  Checkpoint checkpoint = {.step = progress.step, .sections = {}};
  for_each_array(model, optimizer,
                 [&](const std::string& name, Compute& compute, const Buffer& values) {
                   checkpoint.sections[name] = bytes_of(compute, values);
                 });
  ddprun::put_section(checkpoint, "sampler", sampler.dump());
  ddprun::put_section(checkpoint, "settings", settings.dump());
  return checkpoint;
}

Progress restore(const Checkpoint& checkpoint, Model& model, Optimizer& optimizer,
                 const Settings& settings) {
  refuse_other_settings(checkpoint, settings);
  for_each_array(model, optimizer,
                 [&](const std::string& name, Compute& compute, const Buffer& values) {
                   std::vector<std::byte> bytes(values.bytes());
                   ddprun::get_section(checkpoint, name, std::span<std::byte>(bytes));
                   compute.copy_in(bytes, values);
                 });
  for (const Parameter* parameter : model.parameters()) publish(*parameter);
  const auto sampler = parse_section(checkpoint, "sampler");
  return {.step = checkpoint.step,
          .epoch = sampler.value("epoch", std::int64_t{0}),
          .samples_used = sampler.value("samples_used", std::int64_t{0}),
          .epoch_loss = sampler.value("epoch_loss", 0.0)};
}

std::int64_t epoch_of_last_step(const Progress& progress) {
  return progress.samples_used > 0 ? progress.epoch + 1 : progress.epoch;
}

std::uint64_t hash_of(const Model& model) {
  constexpr std::uint64_t kOffset = 0xcbf29ce484222325;
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = kOffset;
  const auto add = [&](Compute& compute, const Buffer& values) {
    for (const std::byte byte : bytes_of(compute, values)) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * kPrime;
    }
  };
  for (const Parameter* parameter : model.parameters()) {
    add(*parameter->place.compute, parameter->master.buffer);
  }
  for (const StateBuffer* buffer : model.buffers()) add(*buffer->compute, buffer->values.buffer);
  return hash;
}

}  // namespace trainer
