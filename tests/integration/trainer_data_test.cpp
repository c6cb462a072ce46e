#include "tests/support/program.hpp"
#include "trainers/frame/json_lines.hpp"
#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/idx_file.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace trainer_data_test {

namespace fs = std::filesystem;

namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& dimensions,
                const std::string& values) {
  std::string bytes = big_endian(magic);
  for (const std::uint32_t dimension : dimensions) bytes += big_endian(dimension);
  return bytes + values;
}

void write_gzip(const fs::path& path, const std::string& bytes) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(::gzclose(file) == Z_OK);
}

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_plain(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
    return "";
  } catch (const ddprun::Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr std::uint32_t kImages = 0x0803;
constexpr std::uint32_t kLabels = 0x0801;

/// A folder like that of Fashion-MNIST, with `count` images of two by two pixels.
void write_data_set(const fs::path& folder, std::uint32_t count) {
  for (const std::string part : {"train", "t10k"}) {
    write_gzip(folder / (part + "-images-idx3-ubyte.gz"),
               idx(kImages, {count, 2, 2}, std::string(count * 4, '\x11')));
    write_gzip(folder / (part + "-labels-idx1-ubyte.gz"),
               idx(kLabels, {count}, std::string(count, '\x09')));
  }
}

}  // namespace

TEST_SUITE("trainer idx files") {
  TEST_CASE("idx file: plain and compressed files are read") {
    const ddprun::test::TemporaryFolder folder;
    const std::string bytes = idx(kImages, {2, 1, 3}, "abcdef");
    write_gzip(fs::path(folder.path()) / "a.gz", bytes);
    write_plain(fs::path(folder.path()) / "a", bytes);
    for (const char* name : {"a.gz", "a"}) {
      const trainer::IdxArray array = trainer::read_idx(fs::path(folder.path()) / name, 3);
      CHECK(array.dimensions == std::vector<std::size_t>{2, 1, 3});
      CHECK(std::string(array.values.begin(), array.values.end()) == "abcdef");
    }
  }

  TEST_CASE("idx file: a damaged file is rejected with the file name and the problem") {
    const ddprun::test::TemporaryFolder folder;
    struct Damaged {
      std::string bytes;
      std::string expected;
    };
    const std::vector<Damaged> table = {
        {"", "within its header"},
        {big_endian(kImages) + "\1", "within its header"},
        {idx(kLabels, {2}, "ab"), "magic number"},
        {idx(0x0d03, {1, 1, 1}, "abcd"), "magic number"},
        {idx(kImages, {2, 0, 2}, ""), "dimension 1 is 0"},
        {idx(kImages, {2, 2, 2}, "abcdefg"), "truncated"},
        {idx(kImages, {2, 2, 2}, "abcdefghi"), "has data after"},
        {idx(kImages, {0xffffffff, 0xffffffff, 0xffffffff}, "a"), "claims more than"},
        {idx(kImages, {1 << 20, 1 << 10, 2}, "a"), "claims more than"},
        {idx(kImages, {1 << 20, 1 << 10, 1}, "a"), "truncated"},
    };
    for (const Damaged& damaged : table) {
      const fs::path path = fs::path(folder.path()) / "damaged.gz";
      write_gzip(path, damaged.bytes);
      const std::string message = refusal([&] { trainer::read_idx(path, 3); });
      CHECK_MESSAGE(contains(message, damaged.expected), message);
      CHECK(contains(message, "damaged.gz"));
    }
  }

  TEST_CASE("idx file: a truncated compressed stream is rejected") {
    const ddprun::test::TemporaryFolder folder;
    const fs::path path = fs::path(folder.path()) / "cut.gz";
    write_gzip(path, idx(kImages, {3, 2, 2}, "abcdefghijkl"));
    const std::string whole = read_all(path);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      write_plain(path, whole.substr(0, size));
      CHECK_MESSAGE(!refusal([&] { trainer::read_idx(path, 3); }).empty(), size, " bytes");
    }
  }

  TEST_CASE("idx file: a flipped bit in a compressed stream is rejected") {
    const ddprun::test::TemporaryFolder folder;
    const fs::path path = fs::path(folder.path()) / "flipped.gz";
    write_gzip(path, idx(kImages, {3, 2, 2}, "abcdefghijkl"));
    std::string bytes = read_all(path);
    bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // in the checksum
    write_plain(path, bytes);
    CHECK(contains(refusal([&] { trainer::read_idx(path, 3); }), "damaged"));
  }
}

TEST_SUITE("trainer data folder") {
  TEST_CASE("trainer data: training set and test set are read from four files") {
    const ddprun::test::TemporaryFolder folder;
    write_data_set(folder.path(), 3);
    const auto data = trainer::load_fashion_mnist(folder.path());
    CHECK(data.train.samples == 3);
    CHECK(data.test.features == 4);
    CHECK(data.train.labels == std::vector<std::uint8_t>{9, 9, 9});
  }

  TEST_CASE("trainer data: a missing file is reported with the command that installs it") {
    const ddprun::test::TemporaryFolder folder;
    const auto message = refusal([&] { trainer::load_fashion_mnist(folder.path()); });
    CHECK(contains(message, "train-images-idx3-ubyte.gz"));
    CHECK(contains(message, "apt-get install dataset-fashion-mnist"));
  }

  TEST_CASE("trainer data: too many or too large labels are rejected") {
    const ddprun::test::TemporaryFolder folder;
    write_data_set(folder.path(), 3);
    const fs::path labels = fs::path(folder.path()) / "t10k-labels-idx1-ubyte.gz";
    write_gzip(labels, idx(kLabels, {4}, std::string(4, '\x01')));
    CHECK(contains(refusal([&] { trainer::load_fashion_mnist(folder.path()); }), "has 4 labels"));
    write_gzip(labels, idx(kLabels, {3}, std::string("\x01\x0a\x01")));
    CHECK(contains(refusal([&] { trainer::load_fashion_mnist(folder.path()); }),
                   "label 10 of sample 1"));
  }
}

TEST_SUITE("trainer JSON lines") {
  TEST_CASE("JSON lines: a file is appended to or truncated depending on the mode") {
    const ddprun::test::TemporaryFolder folder;
    const fs::path path = fs::path(folder.path()) / "lines";
    using trainer::JsonLines;
    JsonLines(path, JsonLines::OpenMode::truncate).write({{"a", 1}});
    JsonLines(path, JsonLines::OpenMode::append).write({{"b", 2}});
    CHECK(read_all(path) == "{\"a\":1}\n{\"b\":2}\n");
    JsonLines(path, JsonLines::OpenMode::truncate).write({{"c", 3}});
    CHECK(read_all(path) == "{\"c\":3}\n");
    CHECK_FALSE(JsonLines("", JsonLines::OpenMode::truncate).is_open());
    const auto message = refusal(
        [&] { JsonLines(fs::path(folder.path()) / "none" / "x", JsonLines::OpenMode::truncate); });
    CHECK(contains(message, "none/x cannot be written: No such file"));
  }
}

}  // namespace trainer_data_test
