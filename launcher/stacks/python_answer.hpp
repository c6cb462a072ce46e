// The answer of a worker that was forked from a Python interpreter with preloaded modules: the
// stacks of its threads and the last calls of its process groups. Written by preload_inspection.py.
// Pure.
#pragma once

#include "rendezvous/control/flights.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Maximum size of an answer.
inline constexpr std::size_t kPythonAnswerBytesMax = 1U << 20;

struct PythonAnswer {
  std::string stacks;              ///< in the form of py-spy's
  control::WorkerFlights flights;  ///< without groups if PyTorch has recorded none
};

/// Returns nullopt for an incomplete answer. Ignores lines that are not valid: any program in the
/// worker could have written them.
std::optional<PythonAnswer> parse_python_answer(std::string_view text);

}  // namespace ddprun
