// State of a sampler as a readable line of text.
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/error.hpp>

#include <array>
#include <charconv>
#include <string_view>

namespace ddprun {

namespace {

constexpr std::string_view kHead = "ddprun-sampler 1";
constexpr std::array<std::string_view, 7> kNames = {"epoch", "cursor", "samples", "global_batch",
                                                    "seed",  "order",  "tail"};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::usage, "elastic sampler: the saved state " + what);
}

std::uint64_t take_number(std::string_view& text, std::string_view name) {
  const std::string wanted = " " + std::string(name) + "=";
  if (!text.starts_with(wanted)) refuse("has no " + std::string(name));
  text.remove_prefix(wanted.size());
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) refuse("has no number as " + std::string(name));
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::string ElasticSampler::State::to_text() const {
  const std::array<std::uint64_t, kNames.size()> values = {
      static_cast<std::uint64_t>(epoch),
      static_cast<std::uint64_t>(cursor),
      static_cast<std::uint64_t>(options.samples),
      static_cast<std::uint64_t>(options.global_batch),
      options.seed,
      static_cast<std::uint64_t>(options.order),
      static_cast<std::uint64_t>(options.tail)};
  std::string text(kHead);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    text += " " + std::string(kNames[i]) + "=" + std::to_string(values[i]);
  }
  return text;
}

ElasticSampler::State ElasticSampler::State::from_text(const std::string& text) {
  std::string_view rest = text;
  if (!rest.starts_with(kHead)) refuse("does not begin with \"" + std::string(kHead) + "\"");
  rest.remove_prefix(kHead.size());
  std::array<std::uint64_t, kNames.size()> values = {};
  for (std::size_t i = 0; i < kNames.size(); ++i) values[i] = take_number(rest, kNames[i]);
  if (!rest.empty()) refuse("has unexpected text \"" + std::string(rest.substr(0, 20)) + "\"");
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(values[i]); };
  if (values[5] > static_cast<std::uint64_t>(SampleOrder::sequential)) refuse("has no known order");
  if (values[6] > static_cast<std::uint64_t>(TailPolicy::pad)) refuse("has no known tail");
  return {.epoch = number(0),
          .cursor = number(1),
          .options = {.samples = number(2),
                      .global_batch = number(3),
                      .seed = values[4],
                      .order = static_cast<SampleOrder>(values[5]),
                      .tail = static_cast<TailPolicy>(values[6])}};
}

}  // namespace ddprun
