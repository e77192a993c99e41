//! The Gregorian calendar.

/// Days from 1 March of year 0 to 1 January 1970. Counting years from March puts the leap day last.
const EPOCH_DAYS: i64 = 719_468;
/// Days of the months from March to January; February takes what is left.
const MONTH_DAYS: [i64; 11] = [31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31];

/// Year, month and day of a day counted from 1970, Gregorian calendar throughout.
pub fn civil(days: i64) -> (i64, usize, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    // The last day of 400 and of 4 years is a leap day, which would begin one century or one year
    // too many.
    let century = (day / 36_524).min(3);
    let day = day - century * 36_524;
    let (quad, day) = (day / 1461, day % 1461);
    let year = (day / 365).min(3);
    let mut day = day - year * 365;
    let mut month = 0;
    for len in MONTH_DAYS {
        if day < len {
            break;
        }
        day -= len;
        month += 1;
    }
    let year = era * 400 + century * 100 + quad * 4 + year;
    // Month 0 is March; January and February belong to the next civil year.
    if month < 10 {
        (year, month + 3, day + 1)
    } else {
        (year + 1, month - 9, day + 1)
    }
}
