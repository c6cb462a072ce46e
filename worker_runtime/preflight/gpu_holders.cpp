#include "worker_runtime/preflight/gpu_holders.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::preflight {

namespace {

constexpr std::size_t kNamedMax = 3;
// nvidia-cuda-mps-server, which has a context on each GPU; the kernel keeps 15 characters.
constexpr const char* kSharingServer = "nvidia-cuda-mps";

std::string gibibytes(std::uint64_t bytes) {
  constexpr double kGibi = 1 << 30;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / kGibi);
  return text;
}

std::string describe(const GpuProcess& process, const std::optional<ProcessFacts>& facts) {
  std::string text = "process " + std::to_string(process.pid);
  if (facts) {
    text += " (" + printable(facts->name);
    text += facts->is_of_other_user ? ", of another user)" : ")";
  }
  text += " holds ";
  return text + (process.memory_bytes ? gibibytes(*process.memory_bytes) + " of its memory"
                                      : std::string("some of its memory"));
}

}  // namespace

std::optional<ProcessFacts> find_process(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  struct stat owner {};
  std::ifstream file(folder + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // "PID (NAME) STATE PARENT ..."; the name may contain parentheses.
  const auto begin = text.find('(');
  const auto end = text.rfind(')');
  if (end == text.npos || begin > end || ::stat(folder.c_str(), &owner) != 0) return std::nullopt;
  ProcessFacts facts{.name = text.substr(begin + 1, end - begin - 1),
                     .is_of_other_user = owner.st_uid != ::geteuid()};
  std::istringstream rest(text.substr(end + 1));
  std::string state;
  if (!(rest >> state >> facts.parent)) return std::nullopt;
  return facts;
}

std::string remark_on_holders(const std::vector<GpuProcess>& processes, int own,
                              const std::function<std::optional<ProcessFacts>(int pid)>& find) {
  const auto is_own = [own](const GpuProcess& process) { return process.pid == own; };
  const auto self = find(own);
  if (!self || std::none_of(processes.begin(), processes.end(), is_own)) return {};
  std::vector<std::string> named;
  std::size_t others = 0;
  for (const auto& process : processes) {
    if (is_own(process)) continue;
    const auto facts = find(process.pid);
    const bool is_harmless =
        facts && (facts->parent == self->parent || facts->name.starts_with(kSharingServer));
    if (is_harmless) continue;
    if (++others <= kNamedMax) named.push_back(describe(process, facts));
  }
  if (others > kNamedMax)
    named.push_back(std::to_string(others - kNamedMax) + " more processes hold some");
  return join(named, "; ");
}

}  // namespace ddprun::preflight
