// A small model and its gradients for tests of the reducer: integers as floats, so that sums over
// ranks are exact and can be compared with ==.
#pragma once

#include <ddprun/gradient_reducer.hpp>

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::test {

/// Limits that place the parameters below in several buckets: {4, 3}, {2}, {1, 0}.
inline const ReducerOptions kSmallBuckets{.first_bucket_bytes = 20, .bucket_bytes_cap = 40};

/// Five parameters whose elements are initially `fill`.
struct Model {
  std::vector<std::vector<float>> values;
  std::vector<Parameter> parameters;

  explicit Model(float fill = 0) {
    for (const std::size_t elements : {3u, 7u, 10u, 4u, 1u}) values.emplace_back(elements, fill);
    for (auto& value : values) {
      parameters.push_back(
          {"p" + std::to_string(parameters.size()), as_buffer(value.data(), value.size())});
    }
  }
};

inline std::span<float> gradient(const GradientReducer& reducer, std::size_t index) {
  const Buffer buffer = reducer.gradient(index);
  return {static_cast<float*>(buffer.data), buffer.elements};
}

/// Gradient of one worker for an element: a small integer, so that sums are exact.
inline float share(int rank, int step, std::size_t parameter, std::size_t element) {
  return static_cast<float>((rank + 1) * (step + 2) + static_cast<int>(parameter * 10 + element));
}

inline void add_gradient(const GradientReducer& reducer, int rank, int step,
                         std::size_t parameter) {
  const auto elements = gradient(reducer, parameter);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] += share(rank, step, parameter, i);
}

inline float sum_of_shares(int ranks, int step, std::size_t parameter, std::size_t element) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += share(rank, step, parameter, element);
  return sum;
}

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Like CHECK, but for threads: doctest's macros belong to the main one.
inline void require_gradients(const GradientReducer& reducer, int ranks, int step,
                              float divisor = 1) {
  for (std::size_t p = 0; p < 5; ++p) {
    const auto elements = gradient(reducer, p);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      require(elements[i] == sum_of_shares(ranks, step, p, i) / divisor,
              "step " + std::to_string(step) + " parameter " + std::to_string(p) + " element " +
                  std::to_string(i) + ": " + std::to_string(elements[i]));
    }
  }
}

/// Adds and reports all gradients, the last parameter's first.
inline void backward(GradientReducer& reducer, int rank, int step) {
  for (std::size_t p = 5; p-- > 0;) {
    add_gradient(reducer, rank, step, p);
    reducer.ready(p);
  }
}

/// Returns the message of the usage error that `body` throws; empty without one.
inline std::string what_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == Errc::usage ? error.what() : std::string("not a usage error");
  }
  return {};
}

}  // namespace ddprun::test
