#include "booster/config/config_layout.h"
#include "booster/config/options/option_tables.h"

#include "platform/json/json_document.h"

namespace booster {

namespace {

using Json = nlohmann::json;

Json object_schema(const Section& section, const OptionTable& options);

Json choice_schema(const Section& section, const NamedTable& choice) {
  OptionTable options = section.options;
  options.insert(options.end(), choice.options.begin(), choice.options.end());
  Json schema = object_schema(section, options);
  schema["description"] = choice.description;
  schema["properties"]["name"] = {{"const", choice.name}};
  if (choice.name != section.default_choice) schema["required"] = {"name"};
  return schema;
}

Json section_schema(const Section& section) {
  if (section.choices.empty()) return object_schema(section, section.options);
  Json forms = Json::array();
  if (section.short_form) forms.push_back({{"enum", names_of(section.choices)}});
  for (const auto& choice : section.choices) forms.push_back(choice_schema(section, choice));
  return {{"description", section.description}, {"oneOf", forms}};
}

// Returns the keys of a section that all choices share, including the choice's name.
OptionTable own_keys(const Section& section, const std::string& path) {
  OptionTable keys = section.options;
  if (!section.choices.empty()) {
    const std::string form = section.short_form ? "; the name alone may replace the object" : "";
    keys.insert(keys.begin(), choice_option("name", section.default_choice,
                                            names_of(section.choices), section.description + form));
  }
  if (path.empty()) keys.push_back(text_option("$schema", "", "for editors; has no effect"));
  return keys;
}

Json object_schema(const Section& section, const OptionTable& options) {
  Json properties = Json::object();
  for (const auto& option : options) properties[option.name] = schema_of(option);
  for (const auto& inner : section.sections) properties[inner.name] = section_schema(inner);
  return {{"type", "object"},
          {"description", section.description},
          {"properties", properties},
          {"additionalProperties", section.open ? Json{{"type", "object"}} : Json(false)}};
}

}  // namespace

Json config_schema(const ProgramConfig& program) {
  Json schema = section_schema(config_layout(program));
  schema["properties"]["$schema"] = {{"type", "string"}};
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "booster config";
  return schema;
}

std::string describe(const Section& section, const std::string& path) {
  std::string text;
  const auto titled = [&](const std::string& name, const OptionTable& options) {
    if (!options.empty()) text += "\n" + name + "\n" + describe(options);
  };
  titled(path.empty() ? "(top)" : path, own_keys(section, path));
  // Consecutive choices with the same options share a paragraph.
  for (size_t i = 0; i < section.choices.size(); ++i) {
    const std::string options = describe(section.choices[i].options);
    std::string names = "\"" + section.choices[i].name + "\"";
    while (i + 1 < section.choices.size() && describe(section.choices[i + 1].options) == options)
      names += ", \"" + section.choices[++i].name + "\"";
    titled(path + " " + names, section.choices[i].options);
  }
  for (const auto& inner : section.sections) text += describe(inner, join_key(path, inner.name));
  return text;
}

}  // namespace booster
