// Arrays of random values for one run of an operation on one device.
#pragma once

#include "tests/support/device_arrays.hpp"
#include "trainers/compute/compute.hpp"

#include <random>
#include <utility>
#include <vector>

namespace ddprun::test {

/// The values depend only on the order of the calls, so they are the same on each device. Not
/// thread-safe; owns the memory of its arrays.
class Arrays {
 public:
  Arrays(trainer::Compute& compute, DataType type) : compute_(compute), type_(type) {}

  Buffer random(std::size_t elements) { return of(elements, type_); }
  Buffer of(std::size_t elements, DataType type) {
    return keep(on_device(compute_, random_doubles(elements, random_), type));
  }
  /// Returns an array that starts `shift` elements after the start of its memory.
  Buffer shifted(std::size_t elements, std::size_t shift) {
    return random(elements + shift).slice(shift, elements);
  }
  Buffer tokens(std::size_t count, std::size_t vocabulary) {
    std::vector<std::int32_t> values(count);
    for (auto& value : values) value = static_cast<std::int32_t>(random_() % vocabulary);
    return keep(on_device(compute_, values));
  }
  Buffer widened(const Buffer& buffer) {
    return keep(on_device(compute_, from_device(compute_, buffer), DataType::float32));
  }
  /// Returns squares, for values that must not be negative.
  Buffer squares(std::size_t elements, DataType type) {
    Doubles values = random_doubles(elements, random_);
    for (double& value : values) value *= value;
    return keep(on_device(compute_, values, type));
  }
  std::vector<Doubles> read(const std::vector<Buffer>& buffers) {
    std::vector<Doubles> values;
    values.reserve(buffers.size());
    for (const Buffer& buffer : buffers) values.push_back(from_device(compute_, buffer));
    return values;
  }

 private:
  Buffer keep(trainer::Array array) {
    held_.push_back(std::move(array));
    return held_.back().buffer;
  }

  trainer::Compute& compute_;
  DataType type_;
  std::mt19937 random_{9};
  std::vector<trainer::Array> held_;
};

}  // namespace ddprun::test
