#include "tests/fuzz/pmi_target.hpp"

#include "tests/fuzz/promise.hpp"
#include "worker_runtime/backends/mpi/pmi_messages.hpp"
#include <ddprun/error.hpp>

#include <map>
#include <sstream>
#include <string>

namespace ddprun::fuzz {

void run_pmi(std::span<const std::uint8_t> input) {
  std::map<std::string, std::string> kept;
  const mpi::PmiFunctions functions{
      .put =
          [&](const std::string& key, const std::string& value) {
            require(key.size() <= mpi::kPmiLineBytesMax && value.size() <= mpi::kPmiLineBytesMax,
                    "what is kept has a bound");
            kept[key] = value;
          },
      .get = [&](const std::string& key) { return kept[key]; },
      .mapping =
          [] {
            return mpi::process_mapping({0, 0, 1});
          },
      .barrier = [] {}};
  std::istringstream lines(std::string(reinterpret_cast<const char*>(input.data()), input.size()));
  for (std::string line; std::getline(lines, line);) {
    try {
      const auto answer = mpi::answer_pmi(line, functions);
      if (answer.line.empty()) continue;
      require(answer.line.find('\n') == answer.line.size() - 1, "an answer is one line");
    } catch (const Error& error) {
      require(error.code() == Errc::protocol, "a line that is none is an error of the protocol");
    }
  }
}

}  // namespace ddprun::fuzz
