#include "booster/config/config_layout.h"

#include "booster/config/registry.h"
#include "booster/config/tables/lr_schedulers.h"
#include "booster/config/tables/model_start.h"
#include "booster/config/tables/optimizers.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster {

namespace {

// Returns a section chosen by name, with the first entry as default.
template <class Entries>
Section chosen_section(const char* name, const char* description, const Entries& entries,
                       bool short_form = false) {
  return {.name = name,
          .description = description,
          .choices = choices_of(entries),
          .default_choice = entries.front().name,
          .short_form = short_form};
}

Section booster_section() {
  return {.name = "booster",
          .description = "the plugin and the precision of the training",
          .options = {libraries_option(),
                      choice_option("loss_mean", "ranks", {"ranks", "rows"},
                                    "for batches that differ in counted rows: ranks: the mean of "
                                    "each batch's mean; rows: one mean over all rows")},
          .sections = {chosen_section("plugin", "how the model is spread over ranks",
                                      plugin_registry().entries(), true),
                       chosen_section("mixed_precision", "the precision strategy",
                                      precision_registry().entries(), true)}};
}

Section model_section() {
  Section section = chosen_section("model", "what is trained", model_registry().entries());
  for (NamedTable& choice : section.choices)
    for (Option& option : start_options()) choice.options.push_back(std::move(option));
  return section;
}

// Makes the choice `name` the default instead of the first.
void set_default_choice(Section& section, const std::string& name) {
  const std::vector<std::string> names = names_of(section.choices);
  check(std::ranges::find(names, name) != names.end(),
        "config: unknown name in the program's default of {}; got {}{}", section.name, name,
        legal_names(name, names));
  section.default_choice = name;
}

// Changes the default of a section's option, or of every choice that has the option.
void set_default(Section& section, const std::string& name, const nlohmann::json& value) {
  if (name == "name" && !section.choices.empty())
    return set_default_choice(section, value.get<std::string>());
  bool found = false;
  const auto set = [&](OptionTable& options) {
    for (Option& option : options)
      if (option.name == name) {
        option.default_value = value;
        option.nullable |= value.is_null();
        found = true;
      }
  };
  set(section.options);
  for (NamedTable& choice : section.choices) set(choice.options);
  check(found, "config: the program has a default for an unknown option; got {} of {}", name,
        section.name);
}

void set_defaults(Section& layout, const ProgramConfig& program) {
  for (const auto& [path, value] : program.defaults) {
    const size_t dot = path.find('.');
    for (Section& section : layout.sections)
      if (section.name == path.substr(0, dot)) set_default(section, path.substr(dot + 1), value);
  }
}

void add_path_pointers(const Section& section, const std::string& at,
                       std::vector<std::string>& pointers) {
  const auto add = [&](const OptionTable& options) {
    for (const Option& option : options)
      if (option.type == OptionType::path || option.type == OptionType::data_path)
        pointers.push_back(at + "/" + option.name);
  };
  add(section.options);
  for (const NamedTable& choice : section.choices) add(choice.options);
  for (const Section& inner : section.sections)
    add_path_pointers(inner, at + "/" + inner.name, pointers);
}

}  // namespace

std::vector<std::string> path_pointers(const Section& layout) {
  std::vector<std::string> pointers;
  add_path_pointers(layout, "", pointers);
  return pointers;
}

Option libraries_option() {
  return texts_option("libraries", {},
                      "paths of shared libraries with your own plugins, strategies and models");
}

std::vector<std::string> names_of(const std::vector<NamedTable>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.name);
  return names;
}

// Returns "auto", "cpu", "cuda", "cuda:0", "cuda:1" ...
std::vector<std::string> device_names() {
  constexpr int most_gpus = 8;
  std::vector<std::string> names = {"auto", "cpu", "cuda"};
  for (int i = 0; i < most_gpus; ++i) names.push_back(fmt::format("cuda:{}", i));
  return names;
}

Section config_layout(const ProgramConfig& program) {
  Section layout = {.name = "config",
                    .description = "the model, its distribution and its training",
                    .options = {choice_option("device", "auto", device_names(),
                                              "device of the model; auto: the CPU; cuda: the GPU "
                                              "with the rank's number on its machine")},
                    .sections = {booster_section(), model_section(),
                                 chosen_section("optimizer", "the update rule of the weights",
                                                optimizer_entries()),
                                 chosen_section("lr_scheduler", "the learning rate over steps",
                                                lr_scheduler_entries())},
                    .open = program.open};
  for (const Section& section : program.sections) layout.sections.push_back(section);
  set_defaults(layout, program);
  return layout;
}

}  // namespace booster
