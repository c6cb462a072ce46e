// A file of JSON objects, one to a line. A line is written at once and whole, so that a worker that
// is killed leaves a readable file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>

namespace trainer {

class JsonLines {
 public:
  enum class Start {
    empty,   ///< what an earlier run wrote is gone
    append,  ///< what this run wrote before it was restarted stays
  };

  /// With an empty path nothing is written. Throws Error{Errc::usage} if the file cannot be opened.
  JsonLines(std::filesystem::path path, Start start);
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  ~JsonLines();

  bool is_open() const { return descriptor_ >= 0; }

  /// Throws Error{Errc::system} naming the file, e.g. when the disk is full.
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace trainer
