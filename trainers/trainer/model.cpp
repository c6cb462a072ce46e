#include "trainers/trainer/model.hpp"

#include "trainers/trainer/embedding.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <utility>

namespace trainer {

Model::Model(std::vector<std::unique_ptr<Layer>> layers)
    : layers_(std::move(layers)), activations_(layers_.size()), gradients_(layers_.size()) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (Parameter* parameter : layers_[i]->parameters()) {
      parameter->name = "layer" + std::to_string(i) + "." + parameter->name;
      parameter->index = parameters_.size();
      parameters_.push_back(parameter);
    }
    for (StateBuffer* buffer : layers_[i]->buffers()) buffers_.push_back(buffer);
  }
}

Matrix& Model::forward(const Matrix& input, Mode mode) {
  if (input.rows == 0) {
    activations_.back().rows = 0;
    return activations_.back();
  }
  const Matrix* current = &input;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward(*current, activations_[i], mode);
    current = &activations_[i];
  }
  return activations_.back();
}

void Model::backward(const Matrix& input, const Matrix& output_gradient,
                     const GradientReady& ready) {
  if (input.rows == 0) {
    std::for_each(parameters_.rbegin(), parameters_.rend(),
                  [&](const Parameter* parameter) { ready(*parameter); });
    return;
  }
  const Matrix* current = &output_gradient;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layers_[i]->backward({.input = i == 0 ? input : activations_[i - 1],
                          .output = activations_[i],
                          .output_gradient = *current,
                          .input_gradient = i == 0 ? nullptr : &gradients_[i]},
                         ready);
    current = &gradients_[i];
  }
}

Model make_model(const ModelSpec& spec, const Places& places) {
  const Place& place = places.rest;
  for (const Place& one : {places.rest, places.embedding}) {
    if (one.compute->supports(one.type)) continue;
    throw ddprun::Error(ddprun::Errc::usage,
                        one.compute->name() + " does not compute in " + to_string(one.type));
  }
  std::mt19937 random(static_cast<std::mt19937::result_type>(spec.seed));
  std::vector<std::unique_ptr<Layer>> layers;
  const auto linear = [&](std::size_t inputs, std::size_t outputs) {
    layers.push_back(std::make_unique<LinearLayer>(place, inputs, outputs, random));
  };
  const auto relu = [&](std::size_t columns) {
    if (spec.batch_norm) layers.push_back(std::make_unique<BatchNormLayer>(place, columns));
    layers.push_back(std::make_unique<ActivationLayer>(place, ActivationFunction::relu));
  };
  const auto sigmoid = [&] {
    layers.push_back(std::make_unique<ActivationLayer>(place, ActivationFunction::sigmoid));
  };

  if (spec.name == "linear") {
    linear(spec.inputs, spec.outputs);
  } else if (spec.name == "toy") {
    linear(spec.inputs, 10);
    relu(10);
    linear(10, spec.outputs);
  } else if (spec.name == "mlp") {
    linear(spec.inputs, 256);
    relu(256);
    linear(256, 128);
    relu(128);
    linear(128, spec.outputs);
  } else if (spec.name == "seqnet") {
    linear(spec.inputs, 200);
    sigmoid();
    linear(200, 200);
    sigmoid();
    linear(200, spec.outputs);
  } else if (spec.name == "bag") {
    constexpr std::size_t kChannels = 64;
    layers.push_back(
        std::make_unique<EmbeddingLayer>(places, spec.inputs, spec.vocabulary, kChannels, random));
    relu(kChannels);
    linear(kChannels, spec.outputs);
  } else {
    throw ddprun::Error(ddprun::Errc::usage, "there is no model '" + spec.name + "'");
  }
  return Model(std::move(layers));
}

}  // namespace trainer
