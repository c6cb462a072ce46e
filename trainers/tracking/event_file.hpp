// A file of TensorBoard events. Each event is written at once and whole, so that a worker that is
// killed leaves a readable file.
#pragma once

#include "trainers/tracking/event_encoding.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace trainer {

class EventFile {
 public:
  /// Creates the folder and a new file in it. `restart`: TensorBoard forgets what earlier files
  /// have of this step and later ones. Throws Error{Errc::usage} if that is not possible.
  EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> restart);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  /// These throw Error{Errc::system} naming the file, e.g. when the disk is full.
  void write(std::int64_t step, std::span<const Scalar> scalars);
  /// As a table, under `tag`.
  void write(const std::string& tag, const std::map<std::string, std::string>& texts);

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace trainer
