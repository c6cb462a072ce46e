#include "launcher/plan/log_layout.hpp"

#include <algorithm>

namespace ddprun {

std::filesystem::path run_folder(const std::filesystem::path& log_dir, const LaunchPlan& plan) {
  return log_dir / plan.run_folder_name;
}

std::filesystem::path worker_folder(const std::filesystem::path& run_folder, int attempt,
                                    int local_rank) {
  return run_folder / ("attempt_" + std::to_string(attempt)) / std::to_string(local_rank);
}

std::string run_folder_name(const std::string& run_id, const std::string& random) {
  // File names have at most 255 bytes; this leaves room for the random part.
  constexpr std::size_t kRunIdBytesMax = 200;
  std::string name = run_id.substr(0, kRunIdBytesMax);
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char letter) { return letter == '/' || letter < 0x20 || letter == 0x7f; }, '_');
  return name + "_" + random;
}

}  // namespace ddprun
