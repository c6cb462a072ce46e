#include "trainers/trainer/collective_trace.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

namespace trainer {

namespace {

using Clock = ddprun::Deadline::Clock;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::filesystem::path path_of_rank(const std::filesystem::path& path, int rank) {
  if (path.empty() || rank == 0) return path;
  auto name = path.stem();
  name += ".rank" + std::to_string(rank);
  name += path.extension();
  return path.parent_path() / name;
}

}  // namespace

CollectiveTrace::CollectiveTrace(const std::filesystem::path& path, int rank)
    : path_(path_of_rank(path, rank)), rank_(rank) {
  if (path_.empty()) return;
  file_.open(path_);
  if (!file_) {
    throw ddprun::Error(ddprun::Errc::usage,
                        path_.string() + " cannot be written: " + std::strerror(errno));
  }
  const nlohmann::ordered_json name = {{"name", "process_name"},
                                       {"ph", "M"},
                                       {"pid", rank_},
                                       {"args", {{"name", "rank " + std::to_string(rank_)}}}};
  file_ << "[\n" + name.dump() << std::flush;
}

std::function<void(const ddprun::CollectiveRecord&)> CollectiveTrace::recorder() {
  if (!file_.is_open()) return {};
  return [this](const ddprun::CollectiveRecord& record) { write(record); };
}

void CollectiveTrace::write(const ddprun::CollectiveRecord& record) {
  const nlohmann::ordered_json event = {
      {"name", record.name},
      {"cat", "collective"},
      {"ph", "X"},
      {"pid", rank_},
      {"tid", 0},
      {"ts", microseconds(record.started.time_since_epoch())},
      {"dur", microseconds(record.ended - record.started)},
      {"args",
       {{"bytes", record.bytes},
        {"sequence", record.sequence},
        {"queued_us", microseconds(record.started - record.queued)}}}};
  // At once and whole: the last collectives of a worker that was killed are those that matter.
  file_ << ",\n" + event.dump() << std::flush;
}

void CollectiveTrace::close() {
  if (!file_.is_open()) return;
  file_ << "\n]\n";
  file_.close();
  if (!file_) ddprun::throw_system_error("writing " + path_.string(), errno);
}

}  // namespace trainer
