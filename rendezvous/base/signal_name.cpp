#include "rendezvous/base/signal_name.hpp"

#include <array>
#include <csignal>
#include <cstddef>

namespace ddprun {

namespace {

// By number, from 1. Real-time signals follow. Not sigabbrev_np(), which glibc has since 2.32.
constexpr std::array kNames = {"HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",  "FPE",
                               "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM", "STKFLT",
                               "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",  "XCPU",
                               "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR",  "SYS"};
constexpr int kNamedSignalMax = static_cast<int>(kNames.size());
static_assert(SIGTERM == 15 && SIGSTOP == 19 && SIGSYS == kNamedSignalMax);

char upper(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

}  // namespace

std::string signal_name(int signal) {
  if (signal >= 1 && signal <= kNamedSignalMax)
    return std::string("SIG") + kNames.at(static_cast<std::size_t>(signal - 1));
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
