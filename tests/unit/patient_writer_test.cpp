#include "launcher/report/patient_writer.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <string>
#include <unistd.h>

using ddprun::PatientWriter;

namespace {

/// A pipe that may be filled and emptied; the writing end blocks, as a terminal does.
class Pipe {
 public:
  Pipe() { REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  ~Pipe() {
    close_reader();
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }

  void close_reader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }

  void fill() {
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string bytes(4096, '.');
    while (::write(ends_[1], bytes.data(), bytes.size()) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);
  }

  /// What is in the pipe now.
  std::string drain() {
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char bytes[4096];
    for (ssize_t count; (count = ::read(ends_[0], bytes, sizeof bytes)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace

TEST_SUITE("patient writer") {
  TEST_CASE("what a console takes is written at once and whole") {
    Pipe pipe;
    PatientWriter writer(pipe.writer());
    const std::string report(20'000, 'r');
    writer.write("one\n");
    CHECK(pipe.drain() == "one\n");
    writer.write(report);
    CHECK(pipe.drain() == report);
  }

  TEST_CASE("a stopped console holds nothing up and gets everything once it goes on") {
    Pipe pipe;
    PatientWriter writer(pipe.writer());
    pipe.fill();
    writer.write("one\n");
    writer.write("two\n");
    pipe.drain();
    writer.write("three\n");
    CHECK(pipe.drain() == "one\ntwo\nthree\n");
  }

  TEST_CASE("what a console has not taken is offered once more at the end") {
    Pipe pipe;
    {
      PatientWriter writer(pipe.writer());
      pipe.fill();
      writer.write("last words\n");
      pipe.drain();
    }
    CHECK(pipe.drain() == "last words\n");
  }

  TEST_CASE("beyond the limit texts are dropped whole and their number is told") {
    Pipe pipe;
    PatientWriter writer(pipe.writer());
    pipe.fill();
    writer.write("kept\n");
    writer.write(std::string(PatientWriter::kPendingBytesMax, 'x'));
    writer.write(std::string(PatientWriter::kPendingBytesMax, 'x'));
    pipe.drain();
    writer.write("later\n");
    CHECK(pipe.drain() == "kept\nlater\nddprun: the console was stopped; messages lost: 2\n");
  }

  TEST_CASE("a console that has gone ends neither the program nor its patience") {
    Pipe pipe;
    PatientWriter writer(pipe.writer());
    pipe.close_reader();
    writer.write("to nobody\n");
    writer.write("again\n");
  }
}
