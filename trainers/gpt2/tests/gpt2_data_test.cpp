#include "trainers/gpt2/tests/token_files.hpp"
#include "trainers/gpt2/token_file.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <set>

namespace gpt2_data_test {

using ddprun::Error;
using ddprun::test::TemporaryFolder;
using ddprun::test::TokenFileHeader;
using ddprun::test::write_file;
using ddprun::test::write_token_file;
using trainer::gpt2::TokenFile;

namespace {

using Tokens = std::vector<std::int32_t>;

std::string refusal(const std::string& path) {
  try {
    const TokenFile file(path);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

}  // namespace

TEST_SUITE("token files") {
  TEST_CASE("token files: windows overlap by one token") {
    const TemporaryFolder folder;
    std::vector<std::uint16_t> tokens(11);
    std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
    write_token_file(folder / "tokens", 65536, tokens);
    const TokenFile file(folder / "tokens");
    CHECK(file.size() == 11);
    CHECK(file.vocabulary() == 65536);
    // The last token of a window needs a successor.
    CHECK(file.windows(5) == 2);
    CHECK(file.windows(6) == 1);
    CHECK(file.windows(10) == 1);
    CHECK(file.windows(11) == 0);
    Tokens inputs(5);
    Tokens targets(5);
    file.read_window(1, inputs, targets);
    CHECK(inputs == Tokens{5, 6, 7, 8, 9});
    CHECK(targets == Tokens{6, 7, 8, 9, 10});
  }

  TEST_CASE("token files: a token beyond the vocabulary is found at the start") {
    const TemporaryFolder folder;
    const std::string path = folder / "tokens";
    for (const std::size_t position : {0, 4, 65535, 65536, 199'999}) {
      std::vector<std::uint16_t> tokens(200'000, 4);
      write_token_file(path, 5, tokens);
      CHECK(refusal(path).empty());
      tokens[position] = 7;
      tokens.back() = 5;
      write_token_file(path, 5, tokens);
      CHECK(refusal(path) == path + ": token " + std::to_string(position) + " is " +
                                 std::to_string(tokens[position]) + ", beyond the vocabulary of 5");
    }
  }

  TEST_CASE("token files: checksums differ exactly if the files do") {
    const TemporaryFolder folder;
    const std::string path = folder / "tokens";
    const auto checksum = [&](std::uint32_t vocabulary, const std::vector<std::uint16_t>& tokens) {
      write_token_file(path, vocabulary, tokens);
      return TokenFile(path).checksum();
    };
    const std::vector<std::uint16_t> tokens(70'001, 0);
    std::set<std::uint64_t> seen = {checksum(65536, tokens), checksum(65535, tokens)};
    CHECK(checksum(65536, tokens) == checksum(65536, tokens));
    seen.insert(checksum(65536, std::vector<std::uint16_t>(70'002, 0)));
    std::size_t changes = 0;
    for (const std::size_t position : {0, 1, 15, 16, 65536, 70'000}) {
      for (const std::uint16_t value : std::initializer_list<std::uint16_t>{1, 0x8000, 0xffff}) {
        auto changed = tokens;
        changed[position] = value;
        seen.insert(checksum(65536, changed));
        ++changes;
        // The same change twice, which a plain sum might not detect.
        changed[position == 32 ? 0 : 32] = value;
        seen.insert(checksum(65536, changed));
        ++changes;
      }
    }
    CHECK(seen.size() == 3 + changes);
  }

  TEST_CASE("token files: an invalid file is rejected with the reason") {
    const TemporaryFolder folder;
    const std::string path = folder / "tokens";
    CHECK(refusal(path) ==
          path +
              " cannot be read: No such file or directory; create a token file with "
              "trainers/gpt2/prepare_text");
    const std::string none =
        path + " is not a valid token file; create one with trainers/gpt2/prepare_text";
    write_file(path, "");
    CHECK(refusal(path) == none);
    write_file(path, "Four score and seven years ago our fathers brought forth");
    CHECK(refusal(path) == none);
    CHECK(refusal(folder.path().string()) ==
          folder.path().string() +
              " is not a valid token file; create one with trainers/gpt2/prepare_text");
    write_token_file(path, {.version = 2, .vocabulary = 5, .tokens = 3}, {0, 1, 2});
    CHECK(refusal(path) == path + " is a token file of version 2, this program reads version 1");
    write_token_file(path, {.vocabulary = 65537, .tokens = 3}, {0, 1, 2});
    CHECK(refusal(path) == path + ": invalid vocabulary size 65537; must be 1 to 65536");
    write_token_file(path, {.vocabulary = 5, .tokens = 4}, {0, 1, 2});
    CHECK(refusal(path) == path +
                               ": the header gives 4 tokens, but the file has 3; the file is "
                               "incomplete");
    write_token_file(path, {.vocabulary = 5, .tokens = 2}, {0, 1, 2});
    CHECK(refusal(path) == path +
                               ": the header gives 2 tokens, but the file has 3; the file has "
                               "extra bytes at its end");
    write_token_file(path, 5, {});
    CHECK(TokenFile(path).windows(1) == 0);
  }
}

}  // namespace gpt2_data_test
