#include "worker_runtime/libtorch/module_tensors.hpp"
#include "worker_runtime/libtorch/section_archive.hpp"
#include <ddprun/torch/checkpoint.hpp>

#include <torch/optim.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <system_error>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace ddprun::torch {

namespace {

using ::torch::optim::Optimizer;
using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

/// A kind of optimizer that LibTorch provides.
struct Kind {
  const char* name;
  const std::type_info& type;
  /// The state is one flat tensor over all parameters, and numbers.
  bool is_flat = false;
};

const Kind kKinds[] = {
    {"torch::optim::Adagrad", typeid(::torch::optim::Adagrad)},
    {"torch::optim::Adam", typeid(::torch::optim::Adam)},
    {"torch::optim::AdamW", typeid(::torch::optim::AdamW)},
    {"torch::optim::LBFGS", typeid(::torch::optim::LBFGS), /*is_flat=*/true},
    {"torch::optim::RMSprop", typeid(::torch::optim::RMSprop)},
    {"torch::optim::SGD", typeid(::torch::optim::SGD)},
};

/// Returns null for other kinds, including derived classes, whose save() is unknown.
const Kind* kind_of(const Optimizer& optimizer) {
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const Kind& kind) { return kind.type == typeid(optimizer); });
  return found == std::end(kKinds) ? nullptr : found;
}

/// Returns LibTorch's state of a parameter; its key is the address, in old versions as text.
template <typename States>
auto state_of(const States& states, const at::Tensor& parameter) {
  void* const address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<typename States::key_type, std::string>) {
    std::ostringstream key;
    key << address;
    return states.find(key.str());
  } else {
    return states.find(address);
  }
}

at::Tensor as_tensor(std::size_t number) {
  return at::scalar_tensor(static_cast<std::int64_t>(number), at::kLong);
}

/// Writes an optimizer in the format of its save(), but with indices instead of addresses as keys,
/// so that equal states have equal bytes.
class OptimizerWriter {
 public:
  explicit OptimizerWriter(const Optimizer& optimizer) : optimizer_(optimizer) {}

  void write(OutputArchive& archive, const Kind& kind) {
    archive.write("pytorch_version", c10::IValue("1.5.0"));
    archive.write("kind", c10::IValue(kind.name));
    OutputArchive states(archive.compilation_unit());
    OutputArchive groups(archive.compilation_unit());
    const auto& all = optimizer_.param_groups();
    groups.write("param_groups/size", as_tensor(all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      OutputArchive group(archive.compilation_unit());
      write_group(all[i], group, states);
      groups.write("param_groups/" + std::to_string(i), group);
    }
    archive.write("state", states);
    archive.write("param_groups", groups);
  }

 private:
  void write_group(const ::torch::optim::OptimizerParamGroup& group, OutputArchive& archive,
                   OutputArchive& states) {
    archive.write("params/size", as_tensor(group.params().size()));
    for (std::size_t i = 0; i < group.params().size(); ++i) {
      const std::string key = std::to_string(next_++);
      archive.write("params/" + std::to_string(i), c10::IValue(key));
      const auto state = state_of(optimizer_.state(), group.params()[i]);
      if (state == optimizer_.state().end()) continue;
      OutputArchive of_parameter(states.compilation_unit());
      state->second->serialize(of_parameter);
      states.write(key, of_parameter);
    }
    OutputArchive options(archive.compilation_unit());
    group.options().serialize(options);
    archive.write("options", options);
  }

  const Optimizer& optimizer_;
  std::size_t next_ = 0;
};

std::size_t read_size(InputArchive& archive, const std::string& key) {
  at::Tensor size;
  archive.read(key, size);
  return static_cast<std::size_t>(size.item<std::int64_t>());
}

std::string join(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

InputArchive options_of(const ::torch::optim::OptimizerParamGroup& group) {
  Checkpoint checkpoint;
  put_archive(checkpoint, "", [&](auto& archive) { group.options().serialize(archive); });
  return get_archive(checkpoint, "");
}

/// Returns false if the option is missing.
bool is_on(InputArchive& options, const std::string& name) {
  c10::IValue value;
  return options.try_read(name, value) && value.isBool() && value.toBool();
}

/// Returns true for output of std::to_string(). LibTorch may fail on other numbers, or confuse
/// them.
bool is_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && std::to_string(number) == text;
}

/// Compares a section with the optimizer before the optimizer is changed.
class OptimizerCheck {
 public:
  OptimizerCheck(const std::string& section, const Optimizer& optimizer)
      : section_(section), optimizer_(optimizer), kind_(kind_of(optimizer)) {}

  void require_fitting(InputArchive& archive) const {
    InputArchive states;
    InputArchive groups;
    if (!archive.try_read("state", states) || !archive.try_read("param_groups", groups)) {
      if (kind_ == nullptr) return;
      refuse("is not of an optimizer");
    }
    const bool is_named = names_kind(archive);
    const auto& ours = optimizer_.param_groups();
    require_same("groups of parameters", read_size(groups, "param_groups/size"), ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      InputArchive group;
      groups.read("param_groups/" + std::to_string(i), group);
      require_same("parameters in group " + std::to_string(i), read_size(group, "params/size"),
                   ours[i].params().size());
      if (kind_ != nullptr && !is_named) require_same_options(group, ours[i]);
      if (kind_ != nullptr) require_same_state(group, ours[i]);
      require_fitting_states(group, states, i);
    }
    if (kind_ == nullptr) return;
    // LibTorch also reads states without a parameter.
    for (const auto& key : states.keys()) require_readable(key);
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const { refuse_section(section_, reason); }

  /// Returns true if the section names this kind.
  bool names_kind(InputArchive& archive) const {
    c10::IValue theirs;
    if (kind_ == nullptr || !archive.try_read("kind", theirs) || !theirs.isString()) return false;
    if (theirs.toStringRef() == kind_->name) return true;
    refuse("is of a " + theirs.toStringRef() + ", and this is a " + kind_->name);
  }

  void require_same(const std::string& what, std::size_t theirs, std::size_t ours) const {
    if (theirs == ours) return;
    refuse("has " + std::to_string(theirs) + " " + what + ", the optimizer has " +
           std::to_string(ours));
  }

  /// For sections without a kind. Other versions of LibTorch may have other options.
  void require_same_options(InputArchive& group,
                            const ::torch::optim::OptimizerParamGroup& own) const {
    InputArchive options;
    group.read("options", options);
    const std::string theirs = join(options.keys());
    const std::string ours = join(options_of(own).keys());
    if (theirs == ours) return;
    refuse("is of an optimizer with the options " + theirs + ", and this is a " + kind_->name +
           ", which has " + ours);
  }

  /// These options require additional state.
  void require_same_state(InputArchive& group,
                          const ::torch::optim::OptimizerParamGroup& own) const {
    InputArchive options;
    group.read("options", options);
    InputArchive ours = options_of(own);
    for (const char* const name : {"amsgrad", "centered"}) {
      const bool is_theirs = is_on(options, name);
      if (is_theirs == is_on(ours, name)) continue;
      refuse("is of a " + std::string(kind_->name) + (is_theirs ? " with " : " without ") + name +
             ", and this one is" + (is_theirs ? " without" : " with"));
    }
  }

  void require_fitting_states(InputArchive& group, InputArchive& states, std::size_t index) const {
    const auto& parameters = optimizer_.param_groups()[index].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      c10::IValue key;
      group.read("params/" + std::to_string(i), key);
      require_readable(key.toStringRef());
      InputArchive state;
      if (kind_ == nullptr || !states.try_read(key.toStringRef(), state)) continue;
      const at::Tensor expected = kind_->is_flat ? all_of(parameters) : parameters[i];
      for (const auto& [name, value] : values_of(state)) {
        if (!value.isTensor()) continue;  // counters
        const at::Tensor theirs = value.toTensor();
        if (kind_->is_flat && theirs.dim() == 0) continue;
        if (theirs.sizes() == expected.sizes() && theirs.scalar_type() == expected.scalar_type())
          continue;
        refuse("has " + describe(theirs) + " for \"" + name + "\" of parameter " +
               std::to_string(i) + " in group " + std::to_string(index) + ", which is " +
               describe(expected));
      }
    }
  }

  /// Keys are addresses. Old versions write them as 0x..., which new ones read as 0, so that all
  /// states would be one.
  void require_readable(const std::string& key) const {
    using Key = std::decay_t<decltype(optimizer_.state())>::key_type;
    if (std::is_same_v<Key, std::string> || is_number(key)) return;
    if (!key.starts_with("0x")) refuse("has \"" + key + "\" for a parameter's address");
    refuse(
        "was written by an older LibTorch in a form that this one misreads: let a program with "
        "that LibTorch and this ddprun load and save it");
  }

  /// Returns a tensor with the shape of the flat state, without memory.
  static at::Tensor all_of(const std::vector<at::Tensor>& parameters) {
    std::int64_t elements = 0;
    for (const auto& parameter : parameters) elements += parameter.numel();
    return at::empty({elements}, parameters.front().options().device(at::kMeta));
  }

  const std::string& section_;
  const Optimizer& optimizer_;
  const Kind* kind_;
};

/// Clears the state first, since load() would keep state that the section lacks.
void replace_state(InputArchive& archive, Optimizer& optimizer) {
  std::decay_t<decltype(optimizer.state())> before;
  std::swap(before, optimizer.state());
  try {
    optimizer.load(archive);
  } catch (...) {
    std::swap(before, optimizer.state());
    throw;
  }
}

}  // namespace

void put_optimizer(Checkpoint& checkpoint, const std::string& section, const Optimizer& optimizer) {
  const Kind* const kind = kind_of(optimizer);
  put_archive(checkpoint, section, [&](OutputArchive& archive) {
    if (kind == nullptr) {
      optimizer.save(archive);
    } else {
      OptimizerWriter(optimizer).write(archive, *kind);
    }
  });
}

void get_optimizer(const Checkpoint& checkpoint, const std::string& section, Optimizer& optimizer) {
  auto archive = get_archive(checkpoint, section);
  convert_errors(section, kSomethingElse, [&] {
    OptimizerCheck(section, optimizer).require_fitting(archive);
    // The state of other kinds is unknown.
    if (kind_of(optimizer) == nullptr) return optimizer.load(archive);
    replace_state(archive, optimizer);
  });
}

}  // namespace ddprun::torch
