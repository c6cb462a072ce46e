// A file of JSON objects, one per line. A line is written by one call, so that the file stays
// readable if the worker is killed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>

namespace trainer {

class JsonLines {
 public:
  enum class OpenMode {
    truncate,  ///< discards the lines of an earlier run
    append,    ///< keeps the lines from before a restart
  };

  /// An empty path disables writing. Throws Error{Errc::usage} if the file cannot be opened.
  JsonLines(std::filesystem::path path, OpenMode mode);
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  ~JsonLines();

  bool is_open() const { return descriptor_ >= 0; }

  /// Writes a line. Throws Error{Errc::system} with the file's name, for example on a full disk.
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace trainer
