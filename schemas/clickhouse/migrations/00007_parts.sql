-- A block of the two widest tables is a part of one file, not of three for each of its
-- columns: at 20 MB it is beyond what ClickHouse has in one file by default (10 MB).
-- What merges make of many blocks has a file for each column as before, so that
-- questions read only the columns that they name.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE status_events MODIFY SETTING min_bytes_for_wide_part = 134217728;
ALTER TABLE decisions MODIFY SETTING min_bytes_for_wide_part = 134217728;

-- +goose Down
ALTER TABLE decisions RESET SETTING min_bytes_for_wide_part;
ALTER TABLE status_events RESET SETTING min_bytes_for_wide_part;
