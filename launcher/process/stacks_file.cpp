#include "launcher/process/stacks_file.hpp"

#include "rendezvous/base/text.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>

namespace ddprun {

namespace {

std::string heading(const StacksTaken& taken) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char when[40];
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return "==== rank " + std::to_string(taken.rank) + " (pid " + std::to_string(taken.pid) +
         ") at " + when + ": " + taken.reason + "\n==== " +
         (taken.means.empty() ? "nothing was found" : "by " + join(taken.means, " and ")) + "\n";
}

}  // namespace

std::string append_stacks(const HeldPath& file, const StacksTaken& taken) {
  std::string text = heading(taken);
  for (const auto& problem : taken.problems) text += "==== " + problem + "\n";
  text += join(taken.lines, "\n") + "\n\n";
  const auto fd = file.open_regular(O_WRONLY | O_CREAT | O_APPEND, 0644);
  const auto written = fd.get() < 0 ? -1 : ::write(fd.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return {};
  return file.path().string() + ": " + std::strerror(written < 0 ? errno : ENOSPC);
}

}  // namespace ddprun
