// Writes text to a console that may be slow, stopped or gone, without ever blocking for long: what
// the console does not take is kept and offered again with the next text and, patiently, at the
// end. One thread.
#pragma once

#include <ddprun/deadline.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

class PatientWriter {
 public:
  /// More than any final report; beyond it whole texts are dropped and counted.
  static constexpr std::size_t kPendingBytesMax = 256U << 10;

  /// `fd` stays the caller's and keeps its flags: it is shared with the shell.
  explicit PatientWriter(int fd) : fd_(fd) {}

  /// Offers what is left for some seconds: nobody waits for ddprun any more.
  ~PatientWriter();

  PatientWriter(const PatientWriter&) = delete;
  PatientWriter& operator=(const PatientWriter&) = delete;

  void write(std::string_view text);

 private:
  void push(Deadline deadline);

  int fd_;
  std::string pending_;
  int dropped_texts_ = 0;
};

}  // namespace ddprun
