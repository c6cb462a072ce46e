#include "trainers/tracking/tracking.hpp"

#include "tests/support/free_port.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trainers/tracking/event_encoding.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <vector>

namespace tracking_test {

using ddprun::Checkpoint;
using ddprun::LogLevel;
using ddprun::test::TemporaryFolder;
using trainer::Tracking;
using trainer::TrackingOptions;
namespace fs = std::filesystem;

namespace {

/// During its lifetime this process cannot extend any file: write() fails with EFBIG.
class NoFileGrowth {
 public:
  NoFileGrowth() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  }
  NoFileGrowth(const NoFileGrowth&) = delete;
  NoFileGrowth& operator=(const NoFileGrowth&) = delete;
  ~NoFileGrowth() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

/// Lines of the log, from any thread.
struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;

  ddprun::Log log() {
    return [this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
  }
  std::vector<std::string> starting_with(const std::string& prefix) {
    const std::lock_guard lock(mutex);
    std::vector<std::string> found;
    std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
                 [&](const std::string& line) { return line.starts_with(prefix); });
    return found;
  }
};

void start(Tracking& tracking, const TrackingOptions& options, int restart_count,
           const std::optional<Checkpoint>& checkpoint) {
  ddprun::WorkerEnv env;
  env.restart_count = restart_count;
  const nlohmann::json settings = {{"lr", 0.1}};
  tracking.start(options, {.program = "test",
                           .env = env,
                           .settings = settings,
                           .checkpoint_dir = "",
                           .step = checkpoint ? checkpoint->step : 0,
                           .checkpoint = checkpoint});
}

fs::path event_file(const TemporaryFolder& folder) {
  const fs::directory_iterator files(folder.path());
  REQUIRE(files != fs::directory_iterator());
  return files->path();
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Step and kind of a restart event, without its time.
std::string restart_bytes(std::int64_t step) {
  return trainer::restart_event(0, step).substr(trainer::version_event(0).find('\x1a'));
}

}  // namespace

TEST_SUITE("tracking") {
  TEST_CASE("tracking: a full disk stops the events with one warning") {
    const TemporaryFolder folder;
    Lines lines;
    Tracking tracking(lines.log());
    start(tracking, {.tensorboard = folder.path()}, 0, std::nullopt);
    const fs::path file = event_file(folder);
    const auto size = fs::file_size(file);
    {
      const NoFileGrowth full;
      tracking.log(1, {{"loss", 0.5}});
      tracking.log(2, {{"loss", 0.5}});
    }
    tracking.log(3, {{"loss", 0.5}});
    CHECK(lines.starting_with("") ==
          std::vector<std::string>{"TensorBoard: writing " + file.string() +
                                   ": File too large; the training continues without "
                                   "TensorBoard's events"});
    CHECK(fs::file_size(file) == size);
  }

  TEST_CASE("tracking: a disk that is already full at the start does not stop the training") {
    const TemporaryFolder folder;
    Lines lines;
    Tracking tracking(lines.log());
    {
      const NoFileGrowth full;
      start(tracking, {.tensorboard = folder.path()}, 1, std::nullopt);
    }
    tracking.log(1, {{"loss", 0.5}});
    CHECK(lines.starting_with("TensorBoard: writing ").size() == 1);
  }

  TEST_CASE("tracking: an attempt replaces later events of earlier attempts") {
    struct Case {
      int restart_count;
      std::optional<Checkpoint> checkpoint;
      std::optional<std::int64_t> step;
    };
    const std::vector<Case> cases = {
        {0, std::nullopt, std::nullopt},
        {1, std::nullopt, 0},
        {0, Checkpoint{.step = 7}, 8},
        {1, Checkpoint{.step = 7}, 8},
    };
    for (const auto& [restart_count, checkpoint, step] : cases) {
      const TemporaryFolder folder;
      Tracking tracking({});
      start(tracking, {.tensorboard = folder.path()}, restart_count, checkpoint);
      const std::string bytes = content(event_file(folder));
      for (const std::int64_t one : {0, 1, 8}) {
        CHECK((bytes.find(restart_bytes(one)) != std::string::npos) == (step == one));
      }
    }
  }

  TEST_CASE("tracking: a non-finite value is not written") {
    const TemporaryFolder folder;
    Tracking tracking({});
    start(tracking, {.tensorboard = folder.path()}, 0, std::nullopt);
    const auto size = fs::file_size(event_file(folder));
    tracking.log(1, {{"loss", std::nan("")}});
    tracking.log(1, {});
    CHECK(fs::file_size(event_file(folder)) == size);
  }

  TEST_CASE("tracking: a malformed checkpoint section is ignored with a warning") {
    const ddprun::test::FreePort port;
    const auto server =
        trainer::parse_server_address("http://127.0.0.1:" + std::to_string(port.number()), "URI");
    for (const std::string& section :
         {std::string(R"({"has_run": 1, "tracking_id": "a", "points": {}})"),
          std::string(R"({"has_run": true, "points": {}})"), std::string("[1]"),
          std::string("{")}) {
      Checkpoint checkpoint{.step = 1};
      ddprun::put_section(checkpoint, "tracking", section);
      Lines lines;
      Tracking tracking(lines.log());
      start(tracking, {.server = server}, 0, checkpoint);
      const auto warnings = lines.starting_with("checkpoint: the section 'tracking' is malformed");
      REQUIRE_MESSAGE(warnings.size() == 1, section);
      CHECK(warnings[0].ends_with("; a new MLflow run is created"));
    }
  }
}

}  // namespace tracking_test
