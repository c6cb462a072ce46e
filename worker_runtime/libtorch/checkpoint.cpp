#include "worker_runtime/libtorch/gradient_hook.hpp"
#include "worker_runtime/libtorch/module_tensors.hpp"
#include <ddprun/error.hpp>
#include <ddprun/torch/checkpoint.hpp>

#include <torch/csrc/autograd/variable.h>
#include <torch/serialize/archive.h>

#include <cstring>

namespace ddprun::torch {

namespace {

[[noreturn]] void refuse(const std::string& section, const std::string& reason) {
  throw Error(Errc::usage, "checkpoint section \"" + section + "\" " + reason);
}

template <typename Trained>
void put(Checkpoint& checkpoint, const std::string& section, const Trained& trained) {
  ::torch::serialize::OutputArchive archive;
  trained.save(archive);
  std::vector<std::byte> bytes;
  archive.save_to([&](const void* data, std::size_t size) {
    const auto* const first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
    return size;
  });
  checkpoint.sections[section] = std::move(bytes);
}

template <typename Trained>
void get(const Checkpoint& checkpoint, const std::string& section, Trained& trained) {
  const auto found = checkpoint.sections.find(section);
  if (found == checkpoint.sections.end()) refuse(section, "is missing");
  try {
    ::torch::serialize::InputArchive archive;
    archive.load_from(reinterpret_cast<const char*>(found->second.data()), found->second.size());
    trained.load(archive);
  } catch (const c10::Error& error) {
    refuse(section, std::string("is of something else: ") + error.what_without_backtrace());
  }
}

std::string describe(const at::Tensor& tensor) {
  std::string dimensions;
  for (const auto size : tensor.sizes())
    dimensions += (dimensions.empty() ? "" : ", ") + std::to_string(size);
  return std::string(at::toString(tensor.scalar_type())) + "[" + dimensions + "]";
}

/// A module's tensor and what LibTorch takes from it when it loads: it puts other memory in its
/// place, and no longer tells those who wait for its gradient.
struct Place {
  NamedTensor named;
  at::Tensor before;
  Accumulator accumulator;  ///< of gradients, if there was one
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

void require_alike(const std::string& section, const Place& place) {
  const at::Tensor& loaded = place.named.tensor;
  if (loaded.sizes() != place.before.sizes() ||
      loaded.scalar_type() != place.before.scalar_type()) {
    refuse(section, "has " + describe(loaded) + " for \"" + place.named.name + "\", which is " +
                        describe(place.before));
  }
}

/// `set` takes the weak pointer that goes with Accumulator.
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
  put(checkpoint, section, module);
}

void get_module(const Checkpoint& checkpoint, const std::string& section,
                ::torch::nn::Module& module) {
  auto places = places_of(module);
  try {
    get(checkpoint, section, module);
    for (const auto& place : places) require_alike(section, place);
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

void put_optimizer(Checkpoint& checkpoint, const std::string& section,
                   const ::torch::optim::Optimizer& optimizer) {
  put(checkpoint, section, optimizer);
}

void get_optimizer(const Checkpoint& checkpoint, const std::string& section,
                   ::torch::optim::Optimizer& optimizer) {
  get(checkpoint, section, optimizer);
}

}  // namespace ddprun::torch
