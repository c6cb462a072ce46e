#include "worker_runtime/libtorch/gradient_hook.hpp"
#include "worker_runtime/libtorch/module_tensors.hpp"
#include "worker_runtime/libtorch/section_archive.hpp"
#include <ddprun/torch/checkpoint.hpp>

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <set>

namespace ddprun::torch {

namespace {

using Tensors = std::vector<NamedTensor>;

/// A tensor of a module, and state that LibTorch's load() discards: it replaces the memory and the
/// gradient accumulator.
struct Place {
  NamedTensor named;
  at::Tensor before;
  Accumulator accumulator;  ///< null if there was none
};

std::vector<Place> places_of(const ::torch::nn::Module& module) {
  std::vector<Place> places;
  const ModuleTensors tensors = tensors_of(module);
  for (const auto* list : {&tensors.parameters, &tensors.frozen, &tensors.buffers}) {
    for (const auto& named : *list) {
      places.push_back({named, named.tensor.detach(),
                        ::torch::autograd::impl::try_get_grad_accumulator(named.tensor)});
    }
  }
  return places;
}

void require_alike(const std::string& section, const NamedTensor& ours, const at::Tensor& theirs) {
  if (theirs.sizes() == ours.tensor.sizes() && theirs.scalar_type() == ours.tensor.scalar_type())
    return;
  refuse_section(section, "has " + describe(theirs) + " for \"" + ours.name + "\", which is " +
                              describe(ours.tensor));
}

/// Lists each tensor under all of its names.
Tensors all_tensors_of(const ::torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

/// Names that a module writes.
struct Written {
  Tensors tensors;
  /// The module's save() may write more names, so a section may have more than these.
  bool has_more = false;
};

Written written_by(const ::torch::nn::Module& module) {
  Checkpoint checkpoint;
  put_module(checkpoint, "", module);
  auto archive = get_archive(checkpoint, "");
  std::set<std::string> names;
  for (const auto& [name, value] : values_of(archive)) names.insert(name);
  Written written;
  for (auto& named : all_tensors_of(module))
    if (names.erase(named.name) > 0) written.tensors.push_back(std::move(named));
  written.has_more = !names.empty();
  return written;
}

bool has_all(const std::vector<NamedValue>& saved, const Tensors& tensors) {
  std::set<std::string> names;
  for (const auto& [name, value] : saved) names.insert(name);
  return names.size() == tensors.size() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [&](const NamedTensor& named) { return names.contains(named.name); });
}

/// Modules with parts that are not serializable or with their own save() must be written to find
/// their names. This needs as much memory as the module, so other modules are not written.
Written expected_of(const ::torch::nn::Module& module, const std::vector<NamedValue>& saved) {
  Tensors tensors = all_tensors_of(module);
  if (has_all(saved, tensors)) return {.tensors = std::move(tensors)};
  return written_by(module);
}

std::string and_more(std::size_t count) {
  return count > 1 ? " and " + std::to_string(count - 1) + " more" : "";
}

void require_same_names(const std::string& section, const std::vector<NamedValue>& saved,
                        const Written& expected) {
  std::set<std::string> theirs;
  for (const auto& [name, value] : saved) theirs.insert(name);
  Tensors missing;
  std::set<std::string> ours;
  for (const auto& named : expected.tensors) {
    ours.insert(named.name);
    if (!theirs.contains(named.name)) missing.push_back(named);
  }
  if (!missing.empty()) {
    refuse_section(section, "lacks \"" + missing.front().name + "\" of the module, " +
                                describe(missing.front().tensor) + and_more(missing.size()));
  }
  if (expected.has_more) return;
  const auto is_new = [&](const NamedValue& value) { return !ours.contains(value.name); };
  const auto found = std::find_if(saved.begin(), saved.end(), is_new);
  if (found == saved.end()) return;
  const auto count = std::count_if(saved.begin(), saved.end(), is_new);
  refuse_section(
      section,
      "has \"" + found->name + "\"" +
          (found->value.isTensor() ? ", " + describe(found->value.toTensor()) : std::string()) +
          and_more(static_cast<std::size_t>(count)) + ", which the module has not");
}

/// Must be called before the module is changed.
void require_fitting(const std::string& section, const std::vector<NamedValue>& saved,
                     const ::torch::nn::Module& module) {
  const Written expected = expected_of(module, saved);
  require_same_names(section, saved, expected);
  std::map<std::string, at::Tensor> theirs;
  for (const auto& [name, value] : saved)
    if (value.isTensor()) theirs.emplace(name, value.toTensor());
  for (const auto& named : expected.tensors) {
    const auto found = theirs.find(named.name);
    if (found == theirs.end()) refuse_section(section, "has no tensor for \"" + named.name + "\"");
    require_alike(section, named, found->second);
  }
}

/// `set` receives the weak pointer to an Accumulator.
template <typename Weak>
void give_accumulator(void (*set)(const at::Tensor&, Weak), const Place& place) {
  set(place.named.tensor, Weak(place.accumulator));
}

void put_back(Place& place) {
  place.named.tensor.set_data(place.before);
  if (place.accumulator) {
    give_accumulator(::torch::autograd::impl::set_grad_accumulator, place);
  }
}

}  // namespace

void put_module(Checkpoint& checkpoint, const std::string& section,
                const ::torch::nn::Module& module) {
  put_archive(checkpoint, section, [&](auto& archive) { module.save(archive); });
}

void get_module(const Checkpoint& checkpoint, const std::string& section,
                ::torch::nn::Module& module) {
  auto archive = get_archive(checkpoint, section);
  convert_errors(section, kSomethingElse,
                 [&] { require_fitting(section, values_of(archive), module); });
  auto places = places_of(module);
  try {
    convert_errors(section, kSomethingElse, [&] { module.load(archive); });
    // A load() of the module may have replaced tensors.
    for (const auto& [named, before, accumulator] : places)
      require_alike(section, {named.name, before}, named.tensor);
  } catch (...) {
    for (auto& place : places) put_back(place);
    throw;
  }
  const at::NoGradGuard no_graph;
  for (auto& place : places) {
    place.before.copy_(place.named.tensor.detach());
    put_back(place);
  }
}

}  // namespace ddprun::torch
