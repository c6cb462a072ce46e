#include "rendezvous/base/signal_name.hpp"

#include <csignal>
#include <cstring>

namespace ddprun {

namespace {

// The last of the signals that have names of their own; real-time signals follow.
constexpr int kNamedSignalMax = 31;

char upper(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

}  // namespace

std::string signal_name(int signal) {
  if (signal >= 1 && signal <= kNamedSignalMax) {
    if (const char* name = ::sigabbrev_np(signal)) return std::string("SIG") + name;
  }
  if (signal == SIGRTMIN) return "SIGRTMIN";
  if (signal > SIGRTMIN && signal <= SIGRTMAX) {
    return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  }
  return "signal " + std::to_string(signal);
}

std::optional<int> signal_number(std::string_view name) {
  std::string wanted;
  for (const char letter : name) wanted += upper(letter);
  if (wanted.rfind("SIG", 0) != 0) wanted = "SIG" + wanted;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (signal_name(signal) == wanted) return signal;
  }
  return std::nullopt;
}

std::vector<std::string> signal_names() {
  std::vector<std::string> names;
  for (int signal = 1; signal <= kNamedSignalMax; ++signal) names.push_back(signal_name(signal));
  return names;
}

}  // namespace ddprun
