#include "worker_runtime/worker/error_file.hpp"

#include <execinfo.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace ddprun::worker {

namespace {

// Deeper stacks are recursions. At some 100 bytes per frame the text fits into the pipe that it
// passes through (64 KiB) without blocking.
constexpr int kFramesMax = 64;

/// Writes JSON through a small buffer on the stack.
class Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}

  void raw(std::string_view text) {
    for (const char c : text) put(c);
  }

  /// Writes the content of a JSON string. Bytes that are not ASCII are copied, as UTF-8.
  void escaped(std::string_view text) {
    constexpr char kDigits[] = "0123456789abcdef";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        put('\\');
        put(c);
      } else if (c == '\n') {
        raw("\\n");
      } else if (byte < 0x20) {
        raw("\\u00");
        put(kDigits[byte >> 4]);
        put(kDigits[byte & 15]);
      } else {
        put(c);
      }
    }
  }

  void decimal(long long value) {
    char digits[24];
    std::size_t first = sizeof digits;
    for (; value > 0 || first == sizeof digits; value /= 10)
      digits[--first] = static_cast<char>('0' + value % 10);
    raw({digits + first, sizeof digits - first});
  }

  bool finish() {
    flush();
    return is_good_;
  }

 private:
  void put(char c) {
    if (used_ == sizeof buffer_) flush();
    buffer_[used_++] = c;
  }

  void flush() {
    is_good_ = is_good_ && ::write(fd_, buffer_, used_) == static_cast<ssize_t>(used_);
    used_ = 0;
  }

  int fd_;
  char buffer_[512];
  std::size_t used_ = 0;
  bool is_good_ = true;
};

/// Writes the output of `write_stack`, which only writes to descriptors, escaped.
void write_stack_escaped(Writer& writer, void (*write_stack)(int)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  write_stack(ends[1]);
  ::close(ends[1]);
  char buffer[512];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    writer.escaped({buffer, static_cast<std::size_t>(got)});
  ::close(ends[0]);
}

}  // namespace

ErrorFile::ErrorFile(const std::string& path) : process_(::getpid()) {
  const std::string temporary = path + "." + std::to_string(process_) + ".tmp";
  if (path.empty() || temporary.size() >= sizeof temporary_path_) return;
  std::memcpy(path_, path.c_str(), path.size() + 1);
  std::memcpy(temporary_path_, temporary.c_str(), temporary.size() + 1);
}

bool ErrorFile::write(std::string_view message, std::string_view heading, std::optional<Errc> code,
                      void (*write_stack)(int fd)) noexcept {
  if (path_[0] == '\0' || process_ != ::getpid() || is_written_.test_and_set()) return false;
  // Does not follow links, which another user may have created.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int fd = ::open(temporary_path_, kFlags, 0644);
  // The file is left over from a process with the same ID.
  if (fd < 0 && errno == EEXIST && ::unlink(temporary_path_) == 0)
    fd = ::open(temporary_path_, kFlags, 0644);
  if (fd < 0) return false;
  Writer writer(fd);
  writer.raw("{\"message\": {\"message\": \"");
  writer.escaped(message);
  writer.raw("\", \"extraInfo\": {\"py_callstack\": \"");
  writer.escaped(heading);
  writer.raw("\\n");
  write_stack_escaped(writer, write_stack);
  writer.raw("\", \"timestamp\": \"");
  writer.decimal(::time(nullptr));
  if (code) {
    writer.raw("\", \"code\": \"");
    writer.raw(to_string(*code));
  }
  writer.raw("\"}}}\n");
  const bool is_complete = writer.finish();
  ::close(fd);
  if (is_complete && ::rename(temporary_path_, path_) == 0) return true;
  ::unlink(temporary_path_);
  return false;
}

void write_backtrace(int fd) {
  void* frames[kFramesMax];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kFramesMax), fd);
}

}  // namespace ddprun::worker
