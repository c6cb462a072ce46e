// The trainer's models with memory for their gradients, and matrices for them.
#pragma once

#include "tests/support/device_arrays.hpp"
#include "trainers/trainer/model.hpp"

#include <vector>

namespace ddprun::test {

/// Zeroed memory of its own, as a reducer would provide.
inline std::vector<trainer::Array> attach_gradients(trainer::Model& model) {
  std::vector<trainer::Array> gradients;
  for (trainer::Parameter* parameter : model.parameters()) {
    gradients.push_back(
        parameter->place.compute->allocate(parameter->elements(), parameter->master.buffer.type));
    parameter->gradient = gradients.back().buffer;
  }
  return gradients;
}

inline trainer::Matrix make_matrix(const trainer::Place& place, std::size_t rows,
                                   std::size_t columns, const Doubles& values) {
  return {rows, columns, on_device(*place.compute, values, place.type)};
}

inline trainer::Matrix random_matrix(const trainer::Place& place, std::size_t rows,
                                     std::size_t columns, std::mt19937& random) {
  return make_matrix(place, rows, columns, random_doubles(rows * columns, random));
}

/// Waits for the device.
inline Doubles values_of(const trainer::Place& place, const trainer::Matrix& matrix) {
  return from_device(*place.compute, matrix.buffer());
}

/// Gradients of all parameters, concatenated. Waits for the device.
inline Doubles gradients_of(const trainer::Model& model) {
  Doubles all;
  for (const trainer::Parameter* parameter : model.parameters()) {
    const Doubles own = from_device(*parameter->place.compute, parameter->gradient);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace ddprun::test
