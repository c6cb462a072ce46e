// A file of TensorBoard events. Each event is written by one call, so that the file stays readable
// if the worker is killed.
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
  /// Creates the folder and a new file in it. `restart`: makes TensorBoard discard the points of
  /// this step and later ones in earlier files. Throws Error{Errc::usage} if the file cannot be
  /// created, and Error{Errc::system} like write().
  EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> restart);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  /// Throws Error{Errc::system} with the file's name, for example on a full disk.
  void write(std::int64_t step, std::span<const Scalar> scalars);
  /// Writes the settings as a table.
  void write_settings(const std::map<std::string, std::string>& settings);

 private:
  explicit EventFile(std::filesystem::path path);
  void append(const std::string& event);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace trainer
