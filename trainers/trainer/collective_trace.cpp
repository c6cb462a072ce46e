#include "trainers/trainer/collective_trace.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

namespace trainer {

namespace {

using Clock = ddprun::Deadline::Clock;

/// Rows of the timeline.
enum Row : std::uint8_t { kCollectives, kBuckets };

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// A restarted worker keeps the trace of its predecessor, which shows why that failed.
std::filesystem::path path_of(const std::filesystem::path& path, int rank, int attempt) {
  if (path.empty()) return path;
  auto name = path.stem();
  if (rank > 0) name += ".rank" + std::to_string(rank);
  if (attempt > 0) name += ".attempt" + std::to_string(attempt);
  name += path.extension();
  return path.parent_path() / name;
}

}  // namespace

CollectiveTrace::CollectiveTrace(const std::filesystem::path& path, int rank, int attempt)
    : path_(path_of(path, rank, attempt)), rank_(rank) {
  if (path_.empty()) return;
  file_.open(path_);
  if (!file_) {
    throw ddprun::Error(ddprun::Errc::usage,
                        path_.string() + " cannot be written: " + std::strerror(errno));
  }
  const auto named = [&](const char* what, Row row, const std::string& name) {
    return nlohmann::ordered_json{
        {"name", what}, {"ph", "M"}, {"pid", rank_}, {"tid", row}, {"args", {{"name", name}}}};
  };
  file_ << "[\n" + named("process_name", kCollectives, "rank " + std::to_string(rank_)).dump();
  add(named("thread_name", kCollectives, "collectives"));
  add(named("thread_name", kBuckets, "buckets"));
}

std::function<void(const ddprun::CollectiveRecord&)> CollectiveTrace::recorder() {
  if (!file_.is_open()) return {};
  return [this](const ddprun::CollectiveRecord& record) { write(record); };
}

void CollectiveTrace::write(const ddprun::CollectiveRecord& record) {
  add({{"name", record.name},
       {"cat", "collective"},
       {"ph", "X"},
       {"pid", rank_},
       {"tid", kCollectives},
       {"ts", microseconds(record.started.time_since_epoch())},
       {"dur", microseconds(record.ended - record.started)},
       {"args",
        {{"bytes", record.bytes},
         {"sequence", record.sequence},
         {"queued_us", microseconds(record.started - record.queued)}}}});
}

void CollectiveTrace::write(const ddprun::StepTimeline& timeline) {
  if (!file_.is_open()) return;
  constexpr double kMicro = 1e6;
  const auto exposed = timeline.exposed_by_bucket();
  const double begun = microseconds(timeline.begun.time_since_epoch());
  for (std::size_t i = 0; i < exposed.size(); ++i) {
    const auto& bucket = timeline.buckets[i];
    add({{"name", "bucket " + std::to_string(bucket.index)},
         {"cat", "bucket"},
         {"ph", "X"},
         {"pid", rank_},
         {"tid", kBuckets},
         {"ts", begun + bucket.launched_seconds * kMicro},
         {"dur", (bucket.done_seconds - bucket.launched_seconds) * kMicro},
         {"args",
          {{"bytes", bucket.bytes},
           {"ready_us", (bucket.launched_seconds - bucket.ready_seconds) * kMicro},
           {"exposed_us", exposed[i] * kMicro}}}});
  }
}

void CollectiveTrace::add(const nlohmann::ordered_json& event) {
  const std::lock_guard lock(mutex_);
  // Flushed at once, since the last collectives of a killed worker matter most.
  file_ << ",\n" + event.dump() << std::flush;
}

void CollectiveTrace::close() {
  if (!file_.is_open()) return;
  file_ << "\n]\n";
  file_.close();
  if (!file_) ddprun::throw_system_error("writing " + path_.string(), errno);
}

}  // namespace trainer
